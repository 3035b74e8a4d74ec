#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "store/database-path.h"

#define OTHER_USER 1234

static char base[64];   /* a temporary directory */
static char local[128]; /* the only path that is not on the fake network */

static int set_up(void **state)
{
    if (make_directory(state) < 0)
        return -1;
    snprintf(base, sizeof(base), "%s", (const char *)*state);
    snprintf(local, sizeof(local), "%s/local", base);
    return 0;
}

struct path {
    char text[256];
};

/* A path below the directory; each call has its own. */
#define BELOW(name) below((struct path){{0}}.text, (name))

static const char *below(char into[static 256], const char *name)
{
    snprintf(into, 256, "%s/%s", base, name);
    return into;
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void make_file(const char *path, mode_t mode)
{
    _cleanup_close_ int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void make_dir(const char *path, mode_t mode)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* ---- filesystems to pretend ---- */

static int all_paths_network(int dir_fd _unused_, long *ret_type)
{
    *ret_type = 0x6969;
    return 0;
}

static int network_except_local(int dir_fd, long *ret_type)
{
    struct stat st, local_st;

    assert_int_equal(fstat(dir_fd, &st), 0);
    bool is_local = stat(local, &local_st) == 0 && st.st_ino == local_st.st_ino;
    *ret_type = is_local ? 0xEF53 : (long)0xFE534D42;
    return 0;
}

static int unknown_filesystem(int dir_fd _unused_, long *ret_type _unused_)
{
    return -EIO;
}

/* ---- expectations ---- */

static void expect(const char *path, bool create)
{
    const struct database_path_options options = {.path = path, .create = create};
    _cleanup_database_path_ struct database_path found = {0};
    struct database_path_error error = {"nothing"};

    if (database_path_prepare(&options, &found, &error) != 0)
        fail_msg("%s", error.text);
    /* without links and dots */
    _cleanup_free_ char *real = realpath(path, NULL);
    assert_string_equal(found.path, real);
    assert_null(found.moved_from);
    assert_int_equal(access(path, R_OK | W_OK), 0);
}

/* The path is rejected with one line that contains both words. */
static void expect_rejected_with(const struct database_path_options *options, int code,
                                 const char *word, const char *another)
{
    struct database_path found = {.path = NULL};
    struct database_path_error error = {""};

    int r = database_path_prepare(options, &found, &error);
    if (r != code || !strstr(error.text, word) || !strstr(error.text, another) ||
        strchr(error.text, '\n'))
        fail_msg("%s gave %d, not %d: %s", options->path, r, code, error.text);
    assert_null(found.path);
}

static void expect_rejected(const char *path, int code, const char *word, const char *another)
{
    const struct database_path_options options = {.path = path, .create = true};
    expect_rejected_with(&options, code, word, another);
}

/* ---- tests ---- */

static void test_network_filesystems(void **state _unused_)
{
    static const long network[] = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x5346414F,
                                   0x00C36400, 0x0BD00BD0, 0x47504653, 0x19830326, 0x01021997,
                                   0xAAD7AAEA, 0x73757245, 0x7461636F, 0x01161970};
    static const long own[] = {0xEF53 /* ext4 */,        0x58465342 /* XFS */,
                               0x9123683E /* btrfs */,   0x01021994 /* tmpfs */,
                               0x794C7630 /* overlay */, 0x65735546 /* FUSE */,
                               0x2FC12FC1 /* ZFS */,     0};

    for (size_t i = 0; i < ARRAY_SIZE(network); i++)
        assert_true(database_path_is_network(network[i]));
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        assert_false(database_path_is_network(own[i]));
    /* As a long of 32 bits shows it. */
    assert_true(database_path_is_network((long)(int32_t)0xFF534D42));
}

static void test_missing_paths_are_created(void **state _unused_)
{
    static const mode_t masks[] = {0, 022, 077, 0777};

    for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%zu/a//./b/x.db", i);
        mode_t before = umask(masks[i]);
        expect(BELOW(name), true);
        umask(before);
        assert_int_equal(mode_of(BELOW(name)), 0600);
        snprintf(name, sizeof(name), "%zu/a/b", i);
        assert_int_equal(mode_of(BELOW(name)), 0700);
        snprintf(name, sizeof(name), "%zu", i);
        assert_int_equal(mode_of(BELOW(name)), 0700);
    }
    assert_int_equal(mode_of(base), 0700);
}

static void test_modes_of_existing_files(void **state _unused_)
{
    make_dir(BELOW("d"), 0755);
    make_file(BELOW("d/x.db"), 0640);
    expect(BELOW("d/x.db"), false);
    expect(BELOW("d/x.db"), true);
    assert_int_equal(mode_of(BELOW("d/x.db")), 0640);
    assert_int_equal(mode_of(BELOW("d")), 0755);
}

static void test_nothing_is_created_for_readers(void **state _unused_)
{
    const struct database_path_options missing = {.path = BELOW("x.db")};
    const struct database_path_options deep = {.path = BELOW("a/b/x.db")};

    expect_rejected_with(&missing, -ENOENT, "x.db", "no database");
    expect_rejected_with(&deep, -ENOENT, "a/b/x.db", "no database");
    assert_int_equal(access(BELOW("a"), F_OK), -1);
}

static void test_directory_others_can_write(void **state _unused_)
{
    static const mode_t modes[] = {0777, 01777, 0770, 0720, 0702, 02775};

    make_dir(BELOW("open"), 0700);
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        assert_int_equal(chmod(BELOW("open"), modes[i]), 0);
        if (geteuid() == 0 || (modes[i] & 2)) /* else the group may be the user's private one */
            expect_rejected(BELOW("open/x.db"), -EPERM, BELOW("open"), "--state-dir");
    }
    /* A directory of our own below it is allowed. */
    assert_int_equal(chmod(BELOW("open"), 01777), 0);
    expect(BELOW("open/mine/x.db"), true);
    expect_rejected("/tmp/x.db", -EPERM, "/tmp", "chmod go-w");
    assert_int_equal(access(BELOW("open/x.db"), F_OK), -1);
}

static void test_links(void **state _unused_)
{
    make_dir(BELOW("own"), 0700);
    make_dir(BELOW("open"), 01777);
    make_dir(BELOW("target"), 0700);
    make_file(BELOW("target/x.db"), 0600);
    assert_int_equal(symlink(BELOW("target/x.db"), BELOW("open/x.db")), 0);
    assert_int_equal(symlink(BELOW("target"), BELOW("open/dir")), 0);
    expect_rejected(BELOW("open/x.db"), -ELOOP, "x.db", "others can write; name");
    expect_rejected(BELOW("open/dir/x.db"), -ELOOP, "x.db", "symbolic link");

    /* Our own links are followed, even if their target is missing. */
    assert_int_equal(symlink("../target/x.db", BELOW("own/x.db")), 0);
    assert_int_equal(symlink(BELOW("target/new/y.db"), BELOW("own/y.db")), 0);
    assert_int_equal(symlink(BELOW("target"), BELOW("own/dir")), 0);
    expect(BELOW("own/x.db"), true);
    expect(BELOW("own/dir/x.db"), true);
    expect(BELOW("own/y.db"), true);
    assert_int_equal(mode_of(BELOW("target/new")), 0700);
    assert_int_equal(mode_of(BELOW("target/new/y.db")), 0600);

    /* But SQLite's files will be created where the links lead. */
    assert_int_equal(symlink(BELOW("open/z.db"), BELOW("own/z.db")), 0);
    expect_rejected(BELOW("own/z.db"), -EPERM, "own/z.db", BELOW("open"));

    assert_int_equal(symlink("loop", BELOW("own/loop")), 0);
    assert_int_equal(symlink("nowhere", BELOW("own/dangling")), 0);
    expect_rejected(BELOW("own/loop"), -EMLINK, "loop", "too many");
    expect_rejected(BELOW("own/dangling/x.db"), -ENOENT, "dangling", "--state-dir");
}

static void test_special_files(void **state _unused_)
{
    make_dir(BELOW("d.db"), 0700);
    assert_int_equal(mkfifo(BELOW("p.db"), 0600), 0);
    make_file(BELOW("f"), 0600);
    expect_rejected(BELOW("d.db"), -EINVAL, "d.db", "regular");
    expect_rejected(BELOW("p.db"), -EINVAL, "p.db", "regular");
    expect_rejected(BELOW("d.db/"), -EISDIR, "d.db", "file name");
    expect_rejected(BELOW("missing/"), -EISDIR, "missing", "file name");
    expect_rejected(BELOW("f/x.db"), -ENOTDIR, "f/x.db", "--state-dir");
    expect_rejected("", -ENOENT, "", "");
    assert_int_equal(access(BELOW("missing"), F_OK), -1);
}

/* Control characters and long paths leave one line with the fix. */
static void test_errors_have_one_line(void **state _unused_)
{
    char path[1200], name[201];

    make_dir(BELOW("open\nopen"), 0777);
    expect_rejected(BELOW("open\nopen/\x1b[31m"), -EPERM, "open\\nopen", "--state-dir");

    memset(name, 'n', sizeof(name) - 1);
    memcpy(name, "é", strlen("é"));
    name[sizeof(name) - 1] = '\0';
    snprintf(path, sizeof(path), "%s/%s/%s/%s", base, name, name, name);
    expect_rejected_with(&(struct database_path_options){.path = path}, -ENOENT, "…",
                         "--state-dir");
}

static void test_files_of_another_user(void **state _unused_)
{
    if (geteuid() != 0)
        skip();
    make_file(BELOW("x.db"), 0666);
    assert_int_equal(chown(BELOW("x.db"), OTHER_USER, OTHER_USER), 0);
    expect_rejected(BELOW("x.db"), -EPERM, "x.db", "1234");

    make_dir(BELOW("theirs"), 0755);
    assert_int_equal(chown(BELOW("theirs"), OTHER_USER, OTHER_USER), 0);
    expect_rejected(BELOW("theirs/x.db"), -EPERM, BELOW("theirs"), "--state-dir");
}

/* Runs `body` as another user, who owns the directory; 0 on success. */
static int as_user(uid_t uid, gid_t gid, int (*body)(void))
{
    int status;

    assert_int_equal(chown(base, uid, gid), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
            _exit(100);
        _exit(body());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int prepare_at_base(void)
{
    char path[256];
    const struct database_path_options options = {.path = below(path, "x.db"), .create = true};
    struct database_path found = {0};
    struct database_path_error error;

    int r = database_path_prepare(&options, &found, &error);
    database_path_done(&found);
    return -r;
}

/* With a umask of 002, new directories are 0775; the group is the user's private group. */
static void test_a_private_group(void **state _unused_)
{
    struct passwd *user = getpwnam("daemon");
    struct group *group = getgrnam("daemon");

    if (geteuid() != 0 || !user || !group || user->pw_gid != group->gr_gid || group->gr_mem[0])
        skip();
    assert_int_equal(chmod(base, 0775), 0);
    assert_int_equal(as_user(user->pw_uid, group->gr_gid, prepare_at_base), 0);
    assert_int_equal(mode_of(BELOW("x.db")), 0600);
    /* Another group, or everyone. */
    assert_int_equal(WEXITSTATUS(as_user(user->pw_uid, OTHER_USER, prepare_at_base)), EPERM);
    assert_int_equal(chmod(base, 0777), 0);
    assert_int_equal(WEXITSTATUS(as_user(user->pw_uid, group->gr_gid, prepare_at_base)), EPERM);
    /* Without group write permission, the group does not matter. */
    assert_int_equal(chmod(base, 0755), 0);
    assert_int_equal(as_user(OTHER_USER + 1, OTHER_USER, prepare_at_base) != 0, 1);
    assert_int_equal(unlink(BELOW("x.db")), 0);
    assert_int_equal(as_user(OTHER_USER + 1, OTHER_USER, prepare_at_base), 0);
}

/* ---- networks ---- */

static void test_a_network_filesystem(void **state _unused_)
{
    const struct database_path_options options = {.path = BELOW("home/state/x.db"),
                                                  .create = true,
                                                  .local_dir = local,
                                                  .filesystem = network_except_local};
    const struct database_path_options reading = {
        .path = options.path, .local_dir = local, .filesystem = network_except_local};
    struct database_path_error error = {"nothing"};

    expect_rejected_with(&reading, -ENOENT, "x.db", "no database");
    for (int round = 0; round < 2; round++) {
        _cleanup_database_path_ struct database_path found = {0};
        if (database_path_prepare(round ? &reading : &options, &found, &error) != 0)
            fail_msg("%s", error.text);
        assert_string_equal(found.path, BELOW("local/x.db"));
        assert_string_equal(found.moved_from, options.path);
    }
    assert_int_equal(mode_of(local), 0700);
    assert_int_equal(mode_of(BELOW("local/x.db")), 0600);
    assert_int_equal(access(BELOW("home"), F_OK), -1); /* nothing was created on the network */

    assert_int_equal(chmod(local, 0755), 0);
    expect_rejected_with(&options, -EPERM, local, "chmod 700");
    assert_int_equal(chmod(local, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(local, OTHER_USER, 0), 0);
        expect_rejected_with(&options, -EPERM, local, "not private to you");
    }
}

static void test_a_local_directory_that_is_a_link(void **state _unused_)
{
    const struct database_path_options options = {.path = BELOW("x.db"),
                                                  .create = true,
                                                  .local_dir = local,
                                                  .filesystem = network_except_local};

    make_dir(BELOW("target"), 0700);
    assert_int_equal(chmod(base, 01777), 0); /* as /var/tmp is */
    assert_int_equal(symlink(BELOW("target"), local), 0);
    expect_rejected_with(&options, -ELOOP, local, "symbolic link");
    assert_int_equal(access(BELOW("target/x.db"), F_OK), -1);
}

static void test_network_everywhere(void **state _unused_)
{
    const struct database_path_options options = {
        .path = BELOW("x.db"), .create = true, .local_dir = local, .filesystem = all_paths_network};
    const struct database_path_options broken = {
        .path = BELOW("x.db"), .create = true, .filesystem = unknown_filesystem};

    expect_rejected_with(&options, -EREMOTE, "x.db", "network");
    expect_rejected_with(&broken, -EIO, "x.db", "--state-dir");
    assert_int_equal(access(BELOW("x.db"), F_OK), -1);
}

#define with_dir(test) cmocka_unit_test_setup_teardown(test, set_up, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network_filesystems),
        with_dir(test_missing_paths_are_created),
        with_dir(test_modes_of_existing_files),
        with_dir(test_nothing_is_created_for_readers),
        with_dir(test_directory_others_can_write),
        with_dir(test_links),
        with_dir(test_special_files),
        with_dir(test_errors_have_one_line),
        with_dir(test_files_of_another_user),
        with_dir(test_a_private_group),
        with_dir(test_a_network_filesystem),
        with_dir(test_a_local_directory_that_is_a_link),
        with_dir(test_network_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
