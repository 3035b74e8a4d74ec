/* The JSONL log: one snapshot a line, in `PATH` and, older, `PATH.1` and `PATH.2`.
 *
 * The writer appends lines whole or not at all: a line goes out in one write, and one that fails is
 * cut off again, as is what a crash left without its newline. Everything before the last newline of
 * a file therefore never changes, and a reader needs no lock: it reads up to the newline that was
 * the last one when it began. The writer does hold a lock, on `PATH.lock`, because two that rotate
 * would push each other's lines out.
 *
 * Nothing is synced: a power loss may take the last lines, a crash of sonde only the one in flight.
 * What a line says is the caller's business. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Longer lines are left out by readers. A snapshot of 100,000 processes is half of that. */
#define JSONL_LINE_MAX_BYTES (64 * 1024 * 1024)

/* ---- writing ---- */

struct jsonl;

/* Opens the log, made 0600 where it is missing, its directories 0700. A file is rotated before it
 * would become larger than `max_bytes`. 0 or a negative errno, such as -EBUSY (another writer has
 * it), -ELOOP (a link in a directory that others can write), -EPERM (somebody else's file) or
 * -EINVAL (not a regular file). */
int jsonl_open(const char *path, uint64_t max_bytes, struct jsonl **ret);

/* Appends a line, given without its newline. If somebody has moved or deleted the file, a new one
 * is begun. 0 or a negative errno: -EMSGSIZE (it would not fit into a file of its own), -EINVAL
 * (it is empty or has a newline in it), or what open, rename or write said; -ENOSPC also for a
 * write that fell short. After a failure the log holds what it held, and the next line is tried
 * anew. */
int jsonl_append(struct jsonl *jsonl, const char *line, size_t length);

void jsonl_close(struct jsonl *jsonl);
DEFINE_CLEANUP(struct jsonl *, jsonl_close);

/* ---- reading ---- */

struct jsonl_reader;

struct jsonl_counts {
    uint64_t lines;    /* handed out */
    uint64_t torn;     /* without their newline: a write in flight, or what a crash left */
    uint64_t too_long; /* over JSONL_LINE_MAX_BYTES */
};

/* Begins at the oldest line. What is appended or rotated from now on does not matter. 0, -ENOENT
 * (there is no log) or another negative errno. */
int jsonl_reader_open(const char *path, struct jsonl_reader **ret);

/* The next line, without its newline; valid until the next call. 1, 0 at the end, or a negative
 * errno: after -EIO and the like the file in question is given up, and the next call goes on with
 * the next one. */
int jsonl_reader_next(struct jsonl_reader *reader, const char **ret_line, size_t *ret_length);

const struct jsonl_counts *jsonl_reader_counts(const struct jsonl_reader *reader);

void jsonl_reader_close(struct jsonl_reader *reader);
DEFINE_CLEANUP(struct jsonl_reader *, jsonl_reader_close);

#define _cleanup_jsonl_        _cleanup_(jsonl_closep)
#define _cleanup_jsonl_reader_ _cleanup_(jsonl_reader_closep)
