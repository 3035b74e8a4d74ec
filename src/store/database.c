#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "store/schema.h"

/* Longer than any transaction of sonde takes: a writer that waits longer waits for a stuck one. */
#define BUSY_MAX_NS (5 * NS_PER_SEC)
#define BUSY_NAP_NS (2 * NS_PER_MSEC)

/* 16 MB: a log becomes this long only if readers keep checkpoints from completing. */
#define RESTART_PAGES      4096
#define RESTART_STEP_PAGES 512
#define RESTART_WAIT_NS    (200 * NS_PER_MSEC)

/* ---- errors ---- */

int database_fail_with(struct database *database, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(database->error.text, sizeof(database->error.text), format, arguments);
    va_end(arguments);
    return error;
}

static int errno_of(sqlite3 *handle, int code)
{
    int system_errno = handle ? sqlite3_system_errno(handle) : 0;

    switch (code & 0xFF) {
    case SQLITE_FULL: return -ENOSPC;
    case SQLITE_NOMEM: return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return -EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return -EBADMSG;
    case SQLITE_READONLY: return -EROFS;
    case SQLITE_PERM: return -EACCES;
    case SQLITE_INTERRUPT: return -EINTR;
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_NOMEM)
            return -ENOMEM;
        /* For its user, an exceeded quota is a full disk. */
        return system_errno == ENOSPC || system_errno == EDQUOT ? -ENOSPC : -EIO;
    case SQLITE_CANTOPEN: return system_errno > 0 ? -system_errno : -EACCES;
    default: return -EINVAL;
    }
}

static const char *error_text(int error, sqlite3 *handle)
{
    switch (error) {
    case -ENOSPC: return "the disk is full";
    case -EBUSY: return "timed out waiting for another process that has locked the database";
    case -EBADMSG: return "the database is damaged; move the file away to start a new one";
    case -EROFS: return "the database is read-only";
    case -ENOMEM: return "out of memory";
    case -EINVAL: return handle ? sqlite3_errmsg(handle) : strerror(EINVAL);
    default: return strerror(-error);
    }
}

int database_fail(struct database *database, int code, const char *doing)
{
    int error = errno_of(database->handle, code);

    return database_fail_with(database, error, "%s '%s': %s", doing, database->path,
                              error_text(error, database->handle));
}

int database_fail_errno(struct database *database, int error)
{
    if (error == -EBADMSG)
        return database_fail_with(database, error, "cannot read '%s': %s", database->path,
                                  error_text(error, NULL));
    return database_fail_with(database, error, "%s", error_text(error, NULL));
}

/* ---- checking the file ---- */

static const char sqlite_magic[16] = "SQLite format 3";

#define HEADER_BYTES 100

static uint32_t read_be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint64_t page_bytes(const unsigned char *header)
{
    unsigned size = (unsigned)header[16] << 8 | header[17];
    return size == 1 ? 65536 : size;
}

/* The size of the database, or of the file with this suffix beside it; 0 if it is missing. */
static uint64_t file_size(const char *path, const char *suffix)
{
    char name[PATH_MAX];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int reject(struct database *database, int code, const char *why)
{
    return database_fail_with(database, code, "'%s' %s", database->path, why);
}

static int check_header(struct database *database, const unsigned char *header)
{
    const char *path = database->path;

    if (memcmp(header, sqlite_magic, sizeof(sqlite_magic)) != 0)
        return reject(database, -EBADMSG,
                      "is not a database; name another file with profiler.storage_path");
    if (read_be32(header + 68) != SCHEMA_APPLICATION_ID)
        return reject(database, -EBADMSG,
                      "is a database of another program; name another file with "
                      "profiler.storage_path");
    if (read_be32(header + 60) > SCHEMA_VERSION)
        return reject(database, -EPROTONOSUPPORT,
                      "was made by a newer version of sonde; use that version, or another file");
    /* With a log or a journal, the file may be shorter than its header states. Its size is read
     * last, because another writer may be creating it at this moment. */
    if (!file_size(path, "-wal") && !file_size(path, "-journal") &&
        read_be32(header + 28) * page_bytes(header) > file_size(path, ""))
        return reject(database, -EBADMSG, "is truncated; move the file away to start a new one");
    return 0;
}

/* Reads through SQLite's descriptor: closing another descriptor of the same file would release the
 * POSIX locks that this process holds on it. */
static int check_content(struct database *database, enum database_mode mode, uint64_t bytes)
{
    unsigned char header[HEADER_BYTES];
    sqlite3_file *file = NULL;

    if (bytes == 0)
        return mode == DATABASE_READ ? reject(database, -ENOENT, "is empty") : 0;
    if (bytes < HEADER_BYTES)
        return reject(database, -EBADMSG,
                      "is not a database; name another file with profiler.storage_path");
    int code = sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK)
        code = file->pMethods->xRead(file, header, sizeof(header), 0);
    if (code != SQLITE_OK)
        return database_fail(database, code, "cannot read");
    return check_header(database, header);
}

static int check_kind(struct database *database, uint64_t *ret_bytes)
{
    struct stat st;

    if (stat(database->path, &st) < 0)
        return database_fail_with(database, -errno, "cannot open '%s': %s", database->path,
                                  strerror(errno));
    if (!S_ISREG(st.st_mode))
        return reject(database, -EBADMSG, "is not a file");
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

/* Removes the rights of other users from the file with this suffix, if it exists and is this
 * user's. It is not opened: closing it would release SQLite's locks on it. */
static int make_private(const struct database *database, const char *suffix)
{
    char name[PATH_MAX];
    struct stat st;

    if (snprintf(name, sizeof(name), "%s%s", database->path, suffix) >= (int)sizeof(name))
        return -ENAMETOOLONG;
    if (fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || !(st.st_mode & 0077))
        return 0;
    if (fchmodat(AT_FDCWD, name, st.st_mode & 0700, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno; /* the last other connection was closed meanwhile */
    return 0;
}

/* SQLite gives its other files the mode of the database, but only when it creates them. */
static int make_all_private(struct database *database)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        int r = make_private(database, suffixes[i]);
        if (r < 0)
            return database_fail_with(database, r, "cannot change the mode of '%s%s': %s",
                                      database->path, suffixes[i], strerror(-r));
    }
    return 0;
}

/* ---- opening ---- */

static int on_busy(void *context, int times)
{
    const struct database *database = context;
    const struct timespec nap = {.tv_nsec = BUSY_NAP_NS};

    if (database->should_stop && database->should_stop(database->context))
        return 0;
    if ((uint64_t)times * BUSY_NAP_NS > database->busy_max_ns)
        return 0;
    nanosleep(&nap, NULL);
    return 1;
}

/* SQLite restarts the log only when no reader uses it, which overlapping short readers can prevent
 * for ever. From a certain length on, the writer waits for the present readers; new ones do not
 * prolong that. It waits briefly and not at every commit, because a long-lived reader would block
 * it. */
static void restart_log(struct database *database, int pages)
{
    if (pages - database->restart_tried_at < RESTART_STEP_PAGES)
        return;
    database->restart_tried_at = pages;
    database->busy_max_ns = RESTART_WAIT_NS;
    if (sqlite3_wal_checkpoint_v2(database->handle, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL) ==
        SQLITE_OK)
        database->restart_tried_at = 0;
    database->busy_max_ns = BUSY_MAX_NS;
}

static int on_commit(void *context, sqlite3 *handle, const char *name, int pages)
{
    struct database *database = context;

    if (pages >= RESTART_PAGES)
        restart_log(database, pages);
    else if (pages >= database->checkpoint_pages)
        sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (pages < RESTART_PAGES)
        database->restart_tried_at = 0;
    return SQLITE_OK; /* a failed checkpoint does not fail the commit */
}

static int configure_handle(struct database *database, enum database_mode mode)
{
    sqlite3 *handle = database->handle;

    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_handler(handle, on_busy, database);
    /* A checkpoint on close would make a short run or a query wait for the disk. */
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    database->checkpoint_pages = CHECKPOINT_PAGES;
    sqlite3_wal_hook(handle, on_commit, database);
    if (mode == DATABASE_READ)
        return database_exec(database, "PRAGMA query_only = 1; PRAGMA temp_store = MEMORY");
    /* Stored data holds no secrets: deleted data need not be overwritten, as Debian's SQLite does
     * by default. */
    return database_exec(database, "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;"
                                   "PRAGMA journal_size_limit = 4194304;"
                                   "PRAGMA secure_delete = OFF");
}

/* A reader normally writes its marks to the shared memory beside the file. In a directory that this
 * user cannot write, and without a log, the file is complete and can be read as it is. */
static bool is_immutable(const char *path)
{
    char directory[PATH_MAX];

    snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    if (!slash || file_size(path, "-wal"))
        return false;
    slash[slash == directory] = '\0';
    return faccessat(AT_FDCWD, directory, W_OK, AT_EACCESS) < 0;
}

/* The handle is used by one thread only. */
static int open_handle(struct database *database, enum database_mode mode)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    const char *path = database->path;
    char *uri = NULL;

    if (mode == DATABASE_READ && is_immutable(path)) {
        uri = sqlite3_mprintf("file:%s?immutable=1", path);
        flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    }
    int code = sqlite3_open_v2(uri ? uri : path, &database->handle, flags, NULL);
    sqlite3_free(uri);
    return code == SQLITE_OK ? 0 : database_fail(database, code, "cannot open the database");
}

int database_open(const char *path, enum database_mode mode, struct database *ret)
{
    ret->handle = NULL;
    ret->busy_max_ns = BUSY_MAX_NS;
    ret->path = strdup(path);
    if (!ret->path)
        return database_fail_errno(ret, -ENOMEM);
    uint64_t bytes = 0;
    int r = check_kind(ret, &bytes);
    if (r < 0)
        return r;
    r = open_handle(ret, mode);
    if (r < 0)
        return r;
    r = check_content(ret, mode, bytes);
    if (r == 0 && mode == DATABASE_WRITE)
        r = make_all_private(ret); /* not before: the file of another program keeps its mode */
    return r < 0 ? r : configure_handle(ret, mode);
}

void database_close(struct database *database)
{
    sqlite3_finalize(database->begin);
    sqlite3_finalize(database->commit);
    database->begin = database->commit = NULL;
    sqlite3_close(database->handle);
    free(database->path);
    database->handle = NULL;
    database->path = NULL;
}

/* ---- statements ---- */

int database_exec(struct database *database, const char *sql)
{
    int code = sqlite3_exec(database->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : database_fail(database, code, "cannot write to");
}

int database_prepare(struct database *database, const char *sql, sqlite3_stmt **ret)
{
    int code = sqlite3_prepare_v3(database->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
    return code == SQLITE_OK ? 0 : database_fail(database, code, "cannot read the tables of");
}

int database_prepare_text(struct database *database, struct text *sql, sqlite3_stmt **ret)
{
    int r = text_error(sql) < 0 ? database_fail_errno(database, -ENOMEM)
                                : database_prepare(database, text_string(sql), ret);
    text_reset(sql);
    return r;
}

int database_step(struct database *database, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);

    if (code == SQLITE_ROW)
        return 1;
    int r =
        code == SQLITE_DONE
            ? 0
            : database_fail(database, code,
                            sqlite3_stmt_readonly(statement) ? "cannot read" : "cannot write to");
    sqlite3_reset(statement);
    return r;
}

int database_run(struct database *database, sqlite3_stmt *statement)
{
    int r = database_step(database, statement);

    if (r > 0)
        sqlite3_reset(statement);
    return MIN(r, 0);
}

int database_step_int(struct database *database, sqlite3_stmt *statement, int64_t *ret)
{
    int r = database_step(database, statement);

    if (r <= 0)
        return r;
    bool is_null = sqlite3_column_type(statement, 0) == SQLITE_NULL;
    if (!is_null)
        *ret = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return is_null ? 0 : 1;
}

int database_query_int(struct database *database, const char *sql, int64_t *ret)
{
    sqlite3_stmt *statement = NULL;

    int r = database_prepare(database, sql, &statement);
    if (r == 0)
        r = database_step_int(database, statement, ret);
    sqlite3_finalize(statement);
    return MIN(r, 0);
}

int database_run_ints(struct database *database, const char *sql, int64_t first, int64_t second)
{
    sqlite3_stmt *statement = NULL;

    int r = database_prepare(database, sql, &statement);
    if (r < 0)
        return r;
    /* Binding a parameter that the statement does not have fails without effect. */
    sqlite3_bind_int64(statement, 1, first);
    sqlite3_bind_int64(statement, 2, second);
    r = database_run(database, statement);
    sqlite3_finalize(statement);
    return r;
}

static int uses_wal(struct database *database, bool *ret)
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(database, "PRAGMA journal_mode", &query);
    if (r == 0)
        r = database_step(database, query);
    if (r > 0) {
        const char *mode = (const char *)sqlite3_column_text(query, 0);
        *ret = mode && strcmp(mode, "wal") == 0;
    }
    sqlite3_finalize(query);
    return MIN(r, 0);
}

int database_use_wal(struct database *database)
{
    for (int times = 0;; times++) {
        bool is_on = false;
        int r = uses_wal(database, &is_on);
        if (r < 0 || is_on)
            return r;
        r = database_exec(database, "PRAGMA journal_mode = WAL");
        if (r != -EBUSY || !on_busy(database, times))
            return r;
    }
}

static int run_prepared(struct database *database, const char *sql, sqlite3_stmt **statement)
{
    int r = *statement ? 0 : database_prepare(database, sql, statement);
    if (r < 0)
        return r;
    int code = sqlite3_step(*statement);
    if (code != SQLITE_DONE)
        r = database_fail(database, code, "cannot write to");
    sqlite3_reset(*statement);
    return r;
}

int database_begin(struct database *database)
{
    return run_prepared(database, "BEGIN IMMEDIATE", &database->begin);
}

int database_end(struct database *database, int result)
{
    if (result >= 0)
        result = run_prepared(database, "COMMIT", &database->commit);
    /* After most errors SQLite has rolled back already. The text of the first error is kept. */
    if (result < 0 && !sqlite3_get_autocommit(database->handle))
        sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
    return MIN(result, 0);
}
