/* One connection to SQLite, and its log beside readers. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "store-world.h"
#include "store/database.h"

/* More than RESTART_STEP_PAGES, and a quarter of RESTART_PAGES. */
#define PUT_1100_PAGES "INSERT INTO filler VALUES (randomblob(1100 * 4096))"
#define PUT_LITTLE     "INSERT INTO filler VALUES ('x')"

static int log_pages(struct database *database)
{
    int pages = -1;

    assert_int_equal(
        sqlite3_wal_checkpoint_v2(database->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, NULL),
        SQLITE_OK);
    return pages;
}

static void put(struct database *database, const char *sql)
{
    if (database_exec(database, sql) < 0)
        fail_msg("%s", database->error.text);
}

/* A long-lived reader makes the log grow; when it has closed, the log restarts. */
static void test_log_restarts_when_readers_have_left(void **state)
{
    struct store_fixture *fixture = *state;
    struct database database = {.checkpoint_pages = CHECKPOINT_PAGES};

    assert_int_equal(store_close(fixture_open(fixture)), 0);
    assert_int_equal(database_open(fixture->path, DATABASE_WRITE, &database), 0);
    assert_int_equal(database_use_wal(&database), 0);
    put(&database, "CREATE TABLE filler (bytes BLOB)");
    sqlite3 *reader = fixture_sqlite(fixture);
    run_sql(reader, "BEGIN");
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM filler"), 0);
    for (int i = 0; i < 4; i++)
        put(&database, PUT_1100_PAGES);
    int tried_at = database.restart_tried_at;
    assert_true(tried_at >= 4 * 1100);
    assert_true(log_pages(&database) >= tried_at);

    /* A commit does not always wait for the reader. */
    put(&database, PUT_LITTLE);
    assert_int_equal(database.restart_tried_at, tried_at);

    run_sql(reader, "COMMIT");
    put(&database, PUT_1100_PAGES);
    assert_int_equal(database.restart_tried_at, 0);
    put(&database, PUT_LITTLE);
    assert_in_range(log_pages(&database), 1, 10);
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM filler"), 7);
    sqlite3_close(reader);
    database_close(&database);
}

/* ---- rights ---- */

struct beside {
    char path[PATH_MAX];
};

static const char *beside(struct beside *into, const struct store_fixture *fixture,
                          const char *suffix)
{
    snprintf(into->path, sizeof(into->path), "%s%s", fixture->path, suffix);
    return into->path;
}

static void make_file(const char *path, mode_t mode, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0) { /* SQLite deletes an empty journal */
        assert_int_equal(errno, ENOENT);
        return 0;
    }
    return st.st_mode & 07777;
}

static void test_other_users_lose_their_rights(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    struct store_fixture *fixture = *state;
    struct database database = {0};
    struct beside name, target;

    assert_int_equal(store_close(fixture_open(fixture)), 0);
    for (size_t i = 1; i < ARRAY_SIZE(suffixes); i++)
        make_file(beside(&name, fixture, suffixes[i]), 0644, "");
    assert_int_equal(chmod(fixture->path, 0640), 0);
    make_file(beside(&target, fixture, ".copy"), 0644, "");

    assert_int_equal(database_open(fixture->path, DATABASE_READ, &database), 0);
    database_close(&database);
    assert_int_equal(mode_of(fixture->path), 0640);

    assert_int_equal(database_open(fixture->path, DATABASE_WRITE, &database), 0);
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        assert_int_equal(mode_of(beside(&name, fixture, suffixes[i])) & 0077, 0);
    assert_int_equal(mode_of(fixture->path), 0600);
    assert_int_equal(mode_of(target.path), 0644);
    database_close(&database);

    /* A link is not followed. */
    unlink(beside(&name, fixture, "-journal"));
    assert_int_equal(symlink(target.path, name.path), 0);
    assert_int_equal(chmod(fixture->path, 0444), 0);
    assert_int_equal(database_open(fixture->path, DATABASE_WRITE, &database), 0);
    assert_int_equal(mode_of(fixture->path), 0400); /* read-only files stay so */
    assert_int_equal(mode_of(target.path), 0644);
    database_close(&database);
    unlink(name.path);
    unlink(target.path);
}

static void test_rejected_file_keeps_its_mode(void **state)
{
    struct store_fixture *fixture = *state;
    struct database database = {0};

    make_file(fixture->path, 0644, "root:x:0:0:root:/root:/bin/sh\n");
    assert_int_equal(database_open(fixture->path, DATABASE_WRITE, &database), -EBADMSG);
    assert_int_equal(mode_of(fixture->path), 0644);
    database_close(&database);
    unlink(fixture->path);
}

/* Whatever shows that the file is damaged, the message names the file and the fix. */
static void test_damage_has_one_message(void **state)
{
    static const char *const damage = "the database is damaged; move the file away to start a new";
    struct store_fixture *fixture = *state;
    struct database database = {.checkpoint_pages = CHECKPOINT_PAGES};

    assert_int_equal(store_close(fixture_open(fixture)), 0);
    assert_int_equal(database_open(fixture->path, DATABASE_WRITE, &database), 0);
    assert_int_equal(database_fail_errno(&database, -EBADMSG), -EBADMSG);
    assert_non_null(strstr(database.error.text, damage));
    assert_int_equal(database_fail(&database, SQLITE_CORRUPT, "cannot read"), -EBADMSG);
    assert_non_null(strstr(database.error.text, damage));
    assert_int_equal(strncmp(database.error.text, "cannot read '/", strlen("cannot read '/")), 0);
    database_close(&database);
}

#define T(test) cmocka_unit_test_setup_teardown(test, store_fixture_set_up, store_fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_log_restarts_when_readers_have_left), T(test_other_users_lose_their_rights),
        T(test_rejected_file_keeps_its_mode), T(test_damage_has_one_message)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
