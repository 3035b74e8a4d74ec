#include "store/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd-io.h"
#include "base/macros.h"

#define READ_BYTES (64 * 1024)

/* PATH, PATH.1 and PATH.2. */
#define FILES 3

struct log_name {
    char text[NAME_MAX + 1];
};

static int make_name(const char *name, const char *suffix, struct log_name *ret)
{
    int length = snprintf(ret->text, sizeof(ret->text), "%s%s", name, suffix);
    return length < (int)sizeof(ret->text) ? 0 : -ENAMETOOLONG;
}

/* Opens a file of the log, which must be a regular one. */
static int open_file(int dir_fd, const char *name, int flags, struct stat *ret_stat)
{
    /* O_NONBLOCK: open() would wait on a pipe. */
    _cleanup_close_ int fd =
        openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);

    if (fd < 0 || fstat(fd, ret_stat) < 0)
        return -errno;
    return S_ISREG(ret_stat->st_mode) ? TAKE_FD(fd) : -EINVAL;
}

/* The same for writing. The file must belong to this user or root, because its owner can read what
 * is written to it. Other users lose their rights to a file of this user. */
static int open_own_file(int dir_fd, const char *name, int flags, struct stat *ret_stat)
{
    _cleanup_close_ int fd = open_file(dir_fd, name, flags | O_RDWR | O_CREAT, ret_stat);

    if (fd >= 0 && ret_stat->st_uid != geteuid() && ret_stat->st_uid != 0)
        return -EPERM;
    if (fd >= 0 && ret_stat->st_uid == geteuid() && (ret_stat->st_mode & 0077) &&
        fchmod(fd, ret_stat->st_mode & 0700) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static ssize_t read_at(int fd, char *into, size_t length, uint64_t offset)
{
    ssize_t n;

    do
        n = pread(fd, into, length, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* The offset behind the last newline among the first `size` bytes; 0 if there is none. */
static int find_whole_length(int fd, uint64_t size, uint64_t *ret)
{
    char bytes[4096];

    while (size) {
        size_t length = (size_t)MIN(size, sizeof(bytes));
        ssize_t n = read_at(fd, bytes, length, size - length);
        if (n < 0)
            return (int)n;
        if ((size_t)n < length) /* it was truncated meanwhile */
            return -ESTALE;
        const char *newline = memrchr(bytes, '\n', length);
        if (newline) {
            *ret = size - length + (uint64_t)(newline - bytes) + 1;
            return 0;
        }
        size -= length;
    }
    *ret = 0;
    return 0;
}

/* ---- writing ---- */

struct jsonl {
    char *path;
    uint64_t max_bytes;
    /* Closed (-1) after an error; the next line opens them again. */
    struct fd_location place;
    int lock_fd;
    int fd;
};

static void close_all(struct jsonl *jsonl)
{
    jsonl->fd = close_fd(jsonl->fd);
    /* Closing is not enough while a forked child that has not called exec yet has it open. */
    if (jsonl->lock_fd >= 0)
        flock(jsonl->lock_fd, LOCK_UN);
    jsonl->lock_fd = close_fd(jsonl->lock_fd);
    fd_location_done(&jsonl->place);
}

static int acquire_lock(struct jsonl *jsonl)
{
    struct log_name name;
    struct stat st;

    int r = make_name(jsonl->place.rest, ".lock", &name);
    if (r < 0)
        return r;
    /* A separate file that is never renamed: a lock on the log itself would move away with each
     * rotation, and another writer could lock the new file. */
    _cleanup_close_ int fd = open_own_file(jsonl->place.dir_fd, name.text, 0, &st);
    if (fd < 0)
        return TAKE_FD(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    jsonl->lock_fd = TAKE_FD(fd);
    return 0;
}

/* Opens or creates the file, and truncates a torn last line, to which the next one would be
 * appended. */
static int begin_file(struct jsonl *jsonl)
{
    struct stat st;
    uint64_t whole;
    _cleanup_close_ int fd = open_own_file(jsonl->place.dir_fd, jsonl->place.rest, O_APPEND, &st);

    if (fd < 0)
        return TAKE_FD(fd);
    int r = find_whole_length(fd, (uint64_t)st.st_size, &whole);
    if (r < 0)
        return r;
    if (whole < (uint64_t)st.st_size && ftruncate(fd, (off_t)whole) < 0)
        return -errno;
    jsonl->fd = TAKE_FD(fd);
    return 0;
}

static int open_all(struct jsonl *jsonl)
{
    int r = fd_locate(jsonl->path, &jsonl->place);
    if (r == 0)
        r = fd_location_make_dirs(&jsonl->place);
    if (r == 0)
        r = acquire_lock(jsonl);
    if (r == 0)
        r = begin_file(jsonl);
    if (r < 0)
        close_all(jsonl);
    return r;
}

int jsonl_open(const char *path, uint64_t max_bytes, struct jsonl **ret)
{
    _cleanup_jsonl_ struct jsonl *jsonl = calloc(1, sizeof(*jsonl));

    if (!jsonl)
        return -ENOMEM;
    jsonl->max_bytes = max_bytes;
    jsonl->place.dir_fd = jsonl->lock_fd = jsonl->fd = -1;
    jsonl->path = strdup(path);
    if (!jsonl->path)
        return -ENOMEM;

    int r = open_all(jsonl);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(jsonl);
    return 0;
}

void jsonl_close(struct jsonl *jsonl)
{
    close_all(jsonl);
    free(jsonl->path);
    free(jsonl);
}

/* Whether the path still leads to the open file, and the size of that. Checks the whole path,
 * because the directory may have been moved. */
static bool is_in_place(const struct jsonl *jsonl, uint64_t *ret_size)
{
    struct stat ours, there;

    if (jsonl->fd < 0 || fstat(jsonl->fd, &ours) < 0 || stat(jsonl->path, &there) < 0)
        return false;
    *ret_size = (uint64_t)ours.st_size;
    return is_same_file(&ours, &there);
}

/* Opens the file again if the path does not lead to it any more; returns its size. */
static int ensure_open(struct jsonl *jsonl, uint64_t *ret_size)
{
    if (is_in_place(jsonl, ret_size))
        return 0;
    close_all(jsonl);
    int r = open_all(jsonl);
    if (r < 0)
        return r;
    return is_in_place(jsonl, ret_size) ? 0 : -ESTALE;
}

/* Renames the oldest first, so that each new name is free. Missing files are skipped. */
static int rotate(struct jsonl *jsonl)
{
    struct log_name first, second;
    int dir_fd = jsonl->place.dir_fd;

    int r = make_name(jsonl->place.rest, ".1", &first);
    if (r == 0)
        r = make_name(jsonl->place.rest, ".2", &second);
    if (r < 0)
        return r;
    if (renameat(dir_fd, first.text, dir_fd, second.text) < 0 && errno != ENOENT)
        return -errno;
    if (renameat(dir_fd, jsonl->place.rest, dir_fd, first.text) < 0)
        return -errno;
    jsonl->fd = close_fd(jsonl->fd);
    return begin_file(jsonl);
}

/* One write for the line and its newline, to make a torn line unlikely. */
static int write_line(int fd, const char *line, size_t length)
{
    char *bytes = (char *)(uintptr_t)line; /* writev() only reads it */
    char newline = '\n';
    const struct iovec parts[] = {{bytes, length}, {&newline, 1}};
    ssize_t n;

    do
        n = writev(fd, parts, ARRAY_SIZE(parts));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == length + 1 ? 0 : -ENOSPC;
}

int jsonl_append(struct jsonl *jsonl, const char *line, size_t length)
{
    uint64_t size;

    if (length >= jsonl->max_bytes)
        return -EMSGSIZE;
    if (length == 0 || memchr(line, '\n', length))
        return -EINVAL;

    int r = ensure_open(jsonl, &size);
    if (r < 0)
        return r;
    if (size > jsonl->max_bytes - length - 1) {
        r = rotate(jsonl);
        if (r < 0)
            return r;
        size = 0;
    }

    r = write_line(jsonl->fd, line, length);
    /* If truncating fails, opening the file for the next line truncates it. */
    if (r < 0 && ftruncate(jsonl->fd, (off_t)size) < 0)
        close_all(jsonl);
    return r;
}

/* ---- reading ---- */

struct log_file {
    int fd; /* -1: missing, or read completely */
    struct stat st;
    uint64_t whole;  /* length up to its last newline */
    uint64_t offset; /* of the next read */
};

struct jsonl_reader {
    struct log_file files[FILES]; /* oldest first */
    size_t current;
    char *buffer;
    size_t capacity;
    size_t start, end; /* unread part of the buffer */
    bool is_skipping;  /* within a line that is too long */
    struct jsonl_counts counts;
};

static void close_files(struct jsonl_reader *reader)
{
    for (size_t i = 0; i < FILES; i++)
        reader->files[i].fd = close_fd(reader->files[i].fd);
}

/* Opens the existing files, newest first: a rotation in between can then duplicate a file, but not
 * hide one. */
static int open_files(struct jsonl_reader *reader, const struct fd_location *place)
{
    static const char *const suffixes[FILES] = {".2", ".1", ""};

    for (size_t i = FILES; i-- > 0;) {
        struct log_file *file = &reader->files[i];
        struct log_name name;
        int r = make_name(place->rest, suffixes[i], &name);
        if (r < 0)
            return r;
        int fd = open_file(place->dir_fd, name.text, O_RDONLY, &file->st);
        if (fd < 0 && fd != -ENOENT)
            return fd;
        file->fd = fd < 0 ? -1 : fd;
    }
    return 0;
}

/* Whether the newest file is still what the path leads to; if so, no rotation came in between. */
static bool is_unrotated(const struct jsonl_reader *reader, const struct fd_location *place)
{
    const struct log_file *newest = &reader->files[FILES - 1];
    struct stat there;

    if (fstatat(place->dir_fd, place->rest, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return newest->fd < 0;
    return newest->fd >= 0 && is_same_file(&newest->st, &there);
}

static int open_unrotated(struct jsonl_reader *reader, const struct fd_location *place)
{
    /* A second attempt is rare: rotations are far apart. */
    for (int attempt = 0; attempt < 100; attempt++) {
        close_files(reader);
        int r = open_files(reader, place);
        if (r < 0)
            return r;
        if (is_unrotated(reader, place))
            return 0;
    }
    return -EAGAIN;
}

/* During a rotation, a file may have been opened under its old and its new name. */
static void drop_doubles(struct jsonl_reader *reader)
{
    for (size_t i = 1; i < FILES; i++) {
        struct log_file *older = &reader->files[i - 1], *newer = &reader->files[i];
        if (older->fd >= 0 && newer->fd >= 0 && is_same_file(&older->st, &newer->st))
            older->fd = close_fd(older->fd);
    }
}

/* Finds the length up to which the file can be read. */
static int measure_file(struct jsonl_reader *reader, struct log_file *file)
{
    int r = -ESTALE;

    /* Again if the writer has just truncated a failed line. */
    for (int attempt = 0; attempt < 3 && r == -ESTALE; attempt++) {
        if (fstat(file->fd, &file->st) < 0)
            return -errno;
        r = find_whole_length(file->fd, (uint64_t)file->st.st_size, &file->whole);
    }
    reader->counts.torn += r == 0 && file->whole < (uint64_t)file->st.st_size;
    return r;
}

static int open_reader(struct jsonl_reader *reader, const char *path)
{
    _cleanup_fd_location_ struct fd_location place = {.dir_fd = -1};
    bool is_there = false;

    int r = fd_locate(path, &place);
    if (r == 0 && fd_location_lacks_dirs(&place))
        r = -ENOENT;
    if (r == 0)
        r = open_unrotated(reader, &place);
    if (r == 0)
        drop_doubles(reader);
    for (size_t i = 0; i < FILES && r == 0; i++)
        if (reader->files[i].fd >= 0) {
            is_there = true;
            r = measure_file(reader, &reader->files[i]);
        }
    return r < 0 ? r : is_there ? 0 : -ENOENT;
}

int jsonl_reader_open(const char *path, struct jsonl_reader **ret)
{
    _cleanup_jsonl_reader_ struct jsonl_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return -ENOMEM;
    for (size_t i = 0; i < FILES; i++)
        reader->files[i].fd = -1;
    int r = open_reader(reader, path);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(reader);
    return 0;
}

void jsonl_reader_close(struct jsonl_reader *reader)
{
    close_files(reader);
    free(reader->buffer);
    free(reader);
}

const struct jsonl_counts *jsonl_reader_counts(const struct jsonl_reader *reader)
{
    return &reader->counts;
}

/* Makes room for READ_BYTES more. The buffer is bounded, because it never holds more than one line
 * of the maximum length. */
static int make_room(struct jsonl_reader *reader)
{
    size_t most = JSONL_LINE_MAX_BYTES + 2 * READ_BYTES;

    if (reader->start) {
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    }
    if (reader->capacity - reader->end >= READ_BYTES)
        return 0;

    size_t capacity = MIN(MAX(2 * reader->capacity, (size_t)2 * READ_BYTES), most);
    char *buffer = realloc(reader->buffer, capacity);
    if (!buffer)
        return -ENOMEM;
    reader->buffer = buffer;
    reader->capacity = capacity;
    return 0;
}

/* Reads more of the current file. Returns 1, 0 at its end, or a negative errno. */
static int read_more(struct jsonl_reader *reader)
{
    struct log_file *file = &reader->files[reader->current];

    if (file->fd < 0 || file->offset >= file->whole)
        return 0;
    int r = make_room(reader);
    if (r < 0)
        return r;
    size_t length = (size_t)MIN(file->whole - file->offset, (uint64_t)READ_BYTES);
    ssize_t n = read_at(file->fd, reader->buffer + reader->end, length, file->offset);
    if (n <= 0) /* 0: the file was truncated */
        return (int)n;
    file->offset += (uint64_t)n;
    reader->end += (size_t)n;
    return 1;
}

/* Drops the rest of the current file and switches to the next one. */
static void next_file(struct jsonl_reader *reader)
{
    struct log_file *file = &reader->files[reader->current++];

    reader->counts.torn += reader->end > reader->start || reader->is_skipping;
    reader->start = reader->end = 0;
    reader->is_skipping = false;
    file->fd = close_fd(file->fd);
}

/* Consumes the line that ends at `newline`. false: it was too long. */
static bool consume_line(struct jsonl_reader *reader, const char *newline, const char **ret_line,
                         size_t *ret_length)
{
    const char *line = reader->buffer + reader->start;
    size_t length = (size_t)(newline - line);

    reader->start += length + 1;
    if (reader->is_skipping || length > JSONL_LINE_MAX_BYTES) {
        reader->is_skipping = false;
        reader->counts.too_long++;
        return false;
    }
    reader->counts.lines++;
    *ret_line = line;
    *ret_length = length;
    return true;
}

/* The next newline in the buffer, after the first `searched` bytes. */
static const char *find_newline(const struct jsonl_reader *reader, size_t searched)
{
    size_t held = reader->end - reader->start;

    if (held <= searched)
        return NULL;
    return memchr(reader->buffer + reader->start + searched, '\n', held - searched);
}

int jsonl_reader_next(struct jsonl_reader *reader, const char **ret_line, size_t *ret_length)
{
    size_t searched = 0;

    while (reader->current < FILES) {
        const char *newline = find_newline(reader, searched);
        searched = 0;
        if (newline) {
            if (consume_line(reader, newline, ret_line, ret_length))
                return 1;
            continue;
        }

        reader->is_skipping |= reader->end - reader->start > JSONL_LINE_MAX_BYTES;
        if (reader->is_skipping)
            reader->start = reader->end = 0;
        searched = reader->end - reader->start;

        int r = read_more(reader);
        if (r <= 0) {
            next_file(reader);
            searched = 0;
        }
        if (r < 0)
            return r;
    }
    return 0;
}
