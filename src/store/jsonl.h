/* The JSONL log: one snapshot a line, in `PATH` and, older, `PATH.1` and `PATH.2`.
 *
 * The writer appends a line with one write. It truncates a line whose write failed, and one that a
 * crash left without a newline. Everything up to the last newline of a file therefore never
 * changes, and a reader needs no lock: it reads up to the last newline at the time when it began.
 * The writer holds a lock on `PATH.lock`, because two writers would rotate away each other's lines.
 *
 * Nothing is synced: a power failure can lose the last lines, a crash of sonde only the current
 * one. The caller decides what a line contains. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Readers skip longer lines. A snapshot of 100,000 processes has half of this length. */
#define JSONL_LINE_MAX_BYTES (64 * 1024 * 1024)

/* ---- writing ---- */

struct jsonl;

/* Opens the log. Creates a missing file with mode 0600 and missing directories with mode 0700. A
 * file is rotated before it would become larger than `max_bytes`. Returns 0 or a negative errno,
 * such as -EBUSY (another writer has it), -ELOOP (a link in a directory that other users can
 * write), -EPERM (the file of another user) or -EINVAL (not a regular file). */
int jsonl_open(const char *path, uint64_t max_bytes, struct jsonl **ret);

/* Appends a line, given without its newline. Creates a new file if the old one was moved or
 * deleted. Returns 0 or a negative errno: -EMSGSIZE (longer than max_bytes), -EINVAL (empty, or
 * with a newline in it), -ENOSPC (also for a short write), or the errno of open, rename or write. A
 * failure does not change the log, and the next call works normally. */
int jsonl_append(struct jsonl *jsonl, const char *line, size_t length);

void jsonl_close(struct jsonl *jsonl);
DEFINE_CLEANUP(struct jsonl *, jsonl_close);

/* ---- reading ---- */

struct jsonl_reader;

struct jsonl_counts {
    uint64_t lines;    /* returned */
    uint64_t torn;     /* without a newline: a write in progress, or left by a crash */
    uint64_t too_long; /* over JSONL_LINE_MAX_BYTES */
};

/* Opens the log at its oldest line. Lines appended later are not read, and a later rotation has no
 * effect. Returns 0, -ENOENT (there is no log) or another negative errno. */
int jsonl_reader_open(const char *path, struct jsonl_reader **ret);

/* Reads the next line, without its newline; it is valid until the next call. Returns 1, 0 at the
 * end, or a negative errno. After a read error, the next call continues with the next file. */
int jsonl_reader_next(struct jsonl_reader *reader, const char **ret_line, size_t *ret_length);

const struct jsonl_counts *jsonl_reader_counts(const struct jsonl_reader *reader);

void jsonl_reader_close(struct jsonl_reader *reader);
DEFINE_CLEANUP(struct jsonl_reader *, jsonl_reader_close);

#define _cleanup_jsonl_        _cleanup_(jsonl_closep)
#define _cleanup_jsonl_reader_ _cleanup_(jsonl_reader_closep)
