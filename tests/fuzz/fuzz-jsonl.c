/* The JSONL log: of three files with any content exactly the complete lines are read, each is
 * decoded as a snapshot or rejected, and appended data is never joined to an incomplete line. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/record-json.h"
#include "model/snapshot.h"
#include "store/jsonl.h"

#define APPENDED "{\"timestamp\":1}"

static char dir[256], path[sizeof(dir) + 8];
static int dir_fd = -1;

static const char *const names[] = {"log.2", "log.1", "log"}; /* oldest first */

static void remove_directory(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        unlinkat(dir_fd, names[i], 0);
    unlinkat(dir_fd, "log.lock", 0);
    rmdir(dir);
}

static void make_directory(void)
{
    if (dir_fd >= 0)
        return;
    const char *parent = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/sonde-fuzz.XXXXXX", parent ? parent : "/tmp");
    assert(mkdtemp(dir));
    dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert(dir_fd >= 0);
    snprintf(path, sizeof(path), "%s/log", dir);
    atexit(remove_directory);
}

/* Writes one file, none if it would be empty, and adds what a reader must find in it. */
static void put_file(const char *name, const char *bytes, size_t length, struct text *expected)
{
    unlinkat(dir_fd, name, 0); /* ext4 would sync a file that was truncated and written again */
    if (length == 0)
        return;
    _cleanup_close_ int fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const char *newline = memrchr(bytes, '\n', length);

    assert(fd >= 0 && fd_write_all(fd, bytes, length) == 0);
    if (newline)
        text_append(expected, bytes, (size_t)(newline - bytes) + 1);
}

static void decode(const char *line, size_t length)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct decode_error error = {{0}};

    if (!snapshot)
        return;
    int r = record_decode(&snapshot_record, line, length, &snapshot->arena, snapshot, &error);
    assert(r <= 0);
}

static void check_lines(const struct text *expected)
{
    _cleanup_jsonl_reader_ struct jsonl_reader *reader = NULL;
    _cleanup_text_ struct text found = {0};
    const char *line;
    size_t length;

    int r = jsonl_reader_open(path, &reader);
    assert(r == 0 || (r == -ENOENT && expected->length == 0));
    if (r < 0)
        return;
    while ((r = jsonl_reader_next(reader, &line, &length)) > 0) {
        decode(line, length);
        text_append(&found, line, length);
        text_append_char(&found, '\n');
    }
    assert(r == 0);
    assert(found.length == expected->length);
    assert(!found.length || memcmp(found.bytes, expected->bytes, found.length) == 0);
}

static void append(void)
{
    _cleanup_jsonl_ struct jsonl *jsonl = NULL;

    assert(jsonl_open(path, 1 << 30, &jsonl) == 0);
    assert(jsonl_append(jsonl, APPENDED, strlen(APPENDED)) == 0);
}

/* The first two bytes determine how much of the rest is in the two older files. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_text_ struct text expected = {0};

    if (length < 2)
        return 0;
    make_directory();
    const char *rest = (const char *)bytes + 2;
    size_t first = (length - 2) * bytes[0] / 256, second = (length - 2 - first) * bytes[1] / 256;

    put_file(names[0], rest, first, &expected);
    put_file(names[1], rest + first, second, &expected);
    put_file(names[2], rest + first + second, length - 2 - first - second, &expected);
    check_lines(&expected);
    append();
    text_append_string(&expected, APPENDED "\n");
    check_lines(&expected);
    return 0;
}
