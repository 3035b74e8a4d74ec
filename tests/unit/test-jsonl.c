#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "store/jsonl.h"

#define PLENTY (1 << 20)

/* ---- a log in a directory of its own ---- */

struct fixture {
    char dir[64];
    char path[128];
};

static int make_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    *state = fixture;
    if (!fixture)
        return -1;
    strcpy(fixture->dir, "/tmp/sonde-unit.XXXXXX");
    if (!mkdtemp(fixture->dir))
        return -1;
    snprintf(fixture->path, sizeof(fixture->path), "%s/log.jsonl", fixture->dir);
    return 0;
}

static int remove_fixture(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->dir);
    free(fixture);
    return system(command);
}

/* The name of the file itself (0), of `.1` or of `.2`. */
static const char *file_name(const struct fixture *fixture, int age, char into[static 160])
{
    snprintf(into, 160, age ? "%s.%d" : "%s", fixture->path, age);
    return into;
}

static void read_file(const struct fixture *fixture, int age, struct text *into)
{
    char name[160], bytes[4096];
    _cleanup_fclose_ FILE *file = fopen(file_name(fixture, age, name), "re");

    text_reset(into);
    if (!file)
        return;
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
        text_append(into, bytes, n);
}

static void write_file(const struct fixture *fixture, int age, const char *bytes, size_t length)
{
    char name[160];
    _cleanup_fclose_ FILE *file = fopen(file_name(fixture, age, name), "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
}

static struct jsonl *open_log(const struct fixture *fixture, uint64_t max_bytes)
{
    struct jsonl *jsonl = NULL;

    assert_int_equal(jsonl_open(fixture->path, max_bytes, &jsonl), 0);
    return jsonl;
}

static int append(struct jsonl *jsonl, const char *line)
{
    return jsonl_append(jsonl, line, strlen(line));
}

/* All lines that the reader returns, each with a newline. */
static struct jsonl_counts read_lines(const char *path, struct text *into)
{
    _cleanup_jsonl_reader_ struct jsonl_reader *reader = NULL;
    const char *line;
    size_t length;
    int r;

    text_reset(into);
    assert_int_equal(jsonl_reader_open(path, &reader), 0);
    while ((r = jsonl_reader_next(reader, &line, &length)) > 0) {
        text_append(into, line, length);
        text_append_char(into, '\n');
    }
    assert_int_equal(r, 0);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 0);
    return *jsonl_reader_counts(reader);
}

static void expect_lines(const struct fixture *fixture, const char *expected, uint64_t torn)
{
    _cleanup_text_ struct text found = {0};

    struct jsonl_counts counts = read_lines(fixture->path, &found);
    assert_string_equal(text_string(&found), expected);
    assert_int_equal(counts.torn, torn);
    assert_int_equal(counts.too_long, 0);
}

/* ---- writing and reading ---- */

static void test_round_trip(void **state)
{
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(*state, PLENTY);
    struct fixture *fixture = *state;
    struct stat st;

    expect_lines(fixture, "", 0);
    assert_int_equal(append(jsonl, "{\"a\":1}"), 0);
    assert_int_equal(append(jsonl, "{\"b\":\"é\"}"), 0);
    expect_lines(fixture, "{\"a\":1}\n{\"b\":\"é\"}\n", 0);
    assert_int_equal(append(jsonl, ""), -EINVAL);
    assert_int_equal(append(jsonl, "{\n}"), -EINVAL);
    assert_int_equal(stat(fixture->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);

    jsonl_close(TAKE_PTR(jsonl));
    assert_int_equal(chmod(fixture->path, 0644), 0);
    jsonl = open_log(fixture, PLENTY);
    assert_int_equal(append(jsonl, "{}"), 0);
    expect_lines(fixture, "{\"a\":1}\n{\"b\":\"é\"}\n{}\n", 0);
    assert_int_equal(stat(fixture->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_directories_are_created(void **state)
{
    struct fixture *fixture = *state;
    char path[160];
    struct stat st;
    _cleanup_jsonl_ struct jsonl *jsonl = NULL;

    snprintf(path, sizeof(path), "%s/a/b", fixture->dir);
    snprintf(fixture->path, sizeof(fixture->path), "%s/a/b/log", fixture->dir);
    mode_t mask = umask(0);
    jsonl = open_log(fixture, PLENTY);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(fixture->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_missing_log(void **state)
{
    struct fixture *fixture = *state;
    struct jsonl_reader *reader = NULL;
    char path[160];

    assert_int_equal(jsonl_reader_open(fixture->path, &reader), -ENOENT);
    snprintf(path, sizeof(path), "%s/missing/log", fixture->dir);
    assert_int_equal(jsonl_reader_open(path, &reader), -ENOENT);
    assert_int_equal(jsonl_reader_open(fixture->dir, &reader), -EINVAL);
    assert_null(reader);
}

/* Lines of different lengths; the last `kept` ones must be stored in order. */
static void test_rotation_keeps_the_order(void **state)
{
    enum { MAX = 100, LINES = 200 };
    struct fixture *fixture = *state;
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(fixture, MAX);
    _cleanup_text_ struct text found = {0}, bytes = {0}, written = {0};

    for (int i = 0; i < LINES; i++) {
        char line[64];
        snprintf(line, sizeof(line), "{\"n\":%d,\"x\":\"%.*s\"}", i, i % 30,
                 "..............................");
        assert_int_equal(append(jsonl, line), 0);
        text_printf(&written, "%s\n", line);

        read_lines(fixture->path, &found);
        /* The files have the last lines, complete. */
        assert_true(found.length <= written.length);
        const char *tail = written.bytes + written.length - found.length;
        assert_string_equal(tail, found.bytes);
        assert_true(tail == written.bytes || tail[-1] == '\n');
        for (int age = 0; age < 3; age++) {
            read_file(fixture, age, &bytes);
            assert_true(bytes.length <= MAX);
            /* No file was rotated too early. */
            assert_true(age == 0 || bytes.length == 0 || bytes.length > MAX - 48);
        }
    }
    assert_true(found.length > 2 * (MAX - 48));
    char name[160];
    snprintf(name, sizeof(name), "%s.3", fixture->path);
    assert_int_equal(access(name, F_OK), -1);
}

static void test_lines_at_the_limit(void **state)
{
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(*state, 10);

    assert_int_equal(append(jsonl, "0123456789"), -EMSGSIZE);
    expect_lines(*state, "", 0);
    assert_int_equal(append(jsonl, "012345678"), 0);
    assert_int_equal(append(jsonl, "a"), 0);
    assert_int_equal(append(jsonl, "b234567"), 0); /* fills the file to the byte */
    assert_int_equal(append(jsonl, "c"), 0);
    expect_lines(*state, "012345678\na\nb234567\nc\n", 0);
    assert_int_equal(append(jsonl, "0123456789"), -EMSGSIZE);
    expect_lines(*state, "012345678\na\nb234567\nc\n", 0);
    assert_int_equal(append(jsonl, "d2345678"), 0); /* a byte too much for the same file */
    expect_lines(*state, "a\nb234567\nc\nd2345678\n", 0);
}

/* ---- what a crash leaves ---- */

static size_t whole_length(const struct text *text, size_t cut)
{
    while (cut && text->bytes[cut - 1] != '\n')
        cut--;
    return cut;
}

/* Cuts one file of the three at one byte, reads, appends, reads. */
static void check_cut(const struct fixture *fixture, const struct text files[static 3], int age,
                      size_t cut)
{
    _cleanup_text_ struct text expected = {0};
    size_t whole = whole_length(&files[age], cut);

    for (int i = 2; i >= 0; i--) {
        write_file(fixture, i, files[i].bytes, i == age ? cut : files[i].length);
        text_append(&expected, files[i].bytes, i == age ? whole : files[i].length);
    }
    expect_lines(fixture, text_string(&expected), cut > whole);

    _cleanup_jsonl_ struct jsonl *jsonl = open_log(fixture, PLENTY);
    assert_int_equal(append(jsonl, "{\"after\":true}"), 0);
    text_append_string(&expected, "{\"after\":true}\n");
    /* The writer repairs the current file only. */
    expect_lines(fixture, expected.bytes, age != 0 && cut > whole);
}

static void test_cut_at_every_byte(void **state)
{
    struct fixture *fixture = *state;
    struct text files[3] = {{0}};
    size_t cuts = 0;
    struct jsonl *jsonl = open_log(fixture, 150);

    for (int i = 0; i < 20; i++) {
        char line[64];
        snprintf(line, sizeof(line), "{\"n\":%d,\"é\":\"%.*s\"}", i, i, "....................");
        assert_int_equal(append(jsonl, line), 0);
    }
    jsonl_close(jsonl);
    for (int age = 0; age < 3; age++) {
        read_file(fixture, age, &files[age]);
        assert_true(files[age].length > 20);
    }
    for (int age = 0; age < 3; age++)
        for (size_t cut = 0; cut <= files[age].length; cut++, cuts++)
            check_cut(fixture, files, age, cut);
    assert_true(cuts > 200);
    for (int age = 0; age < 3; age++)
        text_done(&files[age]);
}

/* The last newline is searched in blocks. */
static void test_long_torn_line_is_truncated(void **state)
{
    static char bytes[3 * 4096 + 10];
    static const size_t newlines[] = {0, 1, 4095, 4096, 4097, 8191, 8192, 3 * 4096 + 8};

    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < ARRAY_SIZE(newlines); i++) {
        _cleanup_text_ struct text found = {0};
        bytes[newlines[i]] = '\n';
        write_file(*state, 0, bytes, sizeof(bytes));
        jsonl_close(open_log(*state, PLENTY));
        read_file(*state, 0, &found);
        assert_int_equal(found.length, newlines[i] + 1);
        bytes[newlines[i]] = 'x';
    }
    write_file(*state, 0, bytes, sizeof(bytes));
    jsonl_close(open_log(*state, PLENTY));
    expect_lines(*state, "", 0);
}

static void test_full_disk_leaves_no_torn_line(void **state)
{
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(*state, PLENTY);
    struct rlimit before;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(append(jsonl, "{\"first\":1}"), 0); /* 12 bytes with the newline */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t room = 0; room <= 12; room++) {
        struct rlimit limit = {12 + room, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int r = append(jsonl, "{\"second\":2}");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(r, room ? -ENOSPC : -EFBIG);
        expect_lines(*state, "{\"first\":1}\n", 0);
    }
    /* There is room again. */
    assert_int_equal(append(jsonl, "{\"second\":2}"), 0);
    expect_lines(*state, "{\"first\":1}\n{\"second\":2}\n", 0);
    signal(SIGXFSZ, SIG_DFL);
}

/* ---- others at the same files ---- */

static void test_two_writers(void **state)
{
    struct fixture *fixture = *state;
    _cleanup_jsonl_ struct jsonl *first = open_log(fixture, 20);
    struct jsonl *second = NULL;

    for (int i = 0; i < 8; i++) { /* also after rotations */
        assert_int_equal(append(first, "0123456789"), 0);
        assert_int_equal(jsonl_open(fixture->path, 20, &second), -EBUSY);
        assert_null(second);
    }
    jsonl_close(TAKE_PTR(first));
    assert_int_equal(jsonl_open(fixture->path, 20, &second), 0);
    jsonl_close(second);
}

static void test_lock_is_released_despite_a_child(void **state)
{
    struct jsonl *jsonl = open_log(*state, PLENTY);
    int hold[2];

    assert_int_equal(pipe(hold), 0);
    pid_t child = fork(); /* has the lock file open, like a child before exec */
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) != 0);
    }
    jsonl_close(jsonl);
    jsonl = open_log(*state, PLENTY);
    jsonl_close(jsonl);
    close(hold[0]);
    close(hold[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_file_is_moved_away(void **state)
{
    struct fixture *fixture = *state;
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(fixture, PLENTY);
    char other[160];

    snprintf(other, sizeof(other), "%s.old", fixture->path);
    assert_int_equal(append(jsonl, "a"), 0);
    assert_int_equal(rename(fixture->path, other), 0);
    assert_int_equal(append(jsonl, "b"), 0);
    expect_lines(fixture, "b\n", 0);

    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(append(jsonl, "c"), 0);
    expect_lines(fixture, "c\n", 0);

    /* Another file under the same name, without a final newline. */
    assert_int_equal(unlink(fixture->path), 0);
    write_file(fixture, 0, "x\nto", 4);
    assert_int_equal(append(jsonl, "d"), 0);
    expect_lines(fixture, "x\nd\n", 0);

    assert_int_equal(truncate(fixture->path, 0), 0);
    assert_int_equal(append(jsonl, "e"), 0);
    expect_lines(fixture, "e\n", 0);
}

static void test_directory_is_moved_away(void **state)
{
    struct fixture *fixture = *state;
    char dir[160], other[160];

    snprintf(dir, sizeof(dir), "%s/a", fixture->dir);
    snprintf(other, sizeof(other), "%s/b", fixture->dir);
    snprintf(fixture->path, sizeof(fixture->path), "%s/a/log", fixture->dir);
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(fixture, PLENTY);
    assert_int_equal(append(jsonl, "a"), 0);
    assert_int_equal(rename(dir, other), 0);
    assert_int_equal(append(jsonl, "b"), 0);
    expect_lines(fixture, "b\n", 0);

    /* Errors end when the file can be created again. */
    snprintf(other, sizeof(other), "%s/c", fixture->dir);
    assert_int_equal(rename(dir, other), 0);
    int fd = open(dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(append(jsonl, "c"), -ENOTDIR);
    assert_int_equal(append(jsonl, "c"), -ENOTDIR);
    assert_int_equal(unlink(dir), 0);
    assert_int_equal(append(jsonl, "d"), 0);
    expect_lines(fixture, "d\n", 0);
}

static void test_links_and_special_files(void **state)
{
    struct fixture *fixture = *state;
    struct jsonl *jsonl = NULL;
    char victim[160];

    snprintf(victim, sizeof(victim), "%s/victim", fixture->dir);
    assert_int_equal(symlink(victim, fixture->path), 0);
    assert_int_equal(chmod(fixture->dir, 01777), 0);
    assert_int_equal(jsonl_open(fixture->path, PLENTY, &jsonl), -ELOOP);
    assert_int_equal(access(victim, F_OK), -1);

    /* A link in our own directory is followed, and its target is rotated. */
    assert_int_equal(chmod(fixture->dir, 0700), 0);
    jsonl = open_log(fixture, 3);
    assert_int_equal(append(jsonl, "a"), 0);
    assert_int_equal(append(jsonl, "b"), 0);
    jsonl_close(jsonl);
    expect_lines(fixture, "a\nb\n", 0);
    struct stat st;
    assert_int_equal(lstat(fixture->path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));

    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(mkfifo(fixture->path, 0600), 0);
    assert_int_equal(jsonl_open(fixture->path, PLENTY, &jsonl), -EINVAL);
    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(mkdir(fixture->path, 0700), 0);
    assert_int_equal(jsonl_open(fixture->path, PLENTY, &jsonl), -EISDIR);
}

static void test_file_of_another_user(void **state)
{
    struct fixture *fixture = *state;
    struct jsonl *jsonl = NULL;

    if (geteuid() != 0)
        skip();
    write_file(fixture, 0, "", 0);
    assert_int_equal(chown(fixture->path, 1234, 1234), 0);
    assert_int_equal(jsonl_open(fixture->path, PLENTY, &jsonl), -EPERM);
}

/* ---- reading ---- */

static void test_odd_content(void **state)
{
    static const char bytes[] = "\n\0{\"\xFF\"}\n\n\r\n  \n";
    _cleanup_text_ struct text found = {0};

    write_file(*state, 0, bytes, sizeof(bytes) - 1);
    struct jsonl_counts counts = read_lines(((struct fixture *)*state)->path, &found);
    assert_int_equal(counts.lines, 5);
    assert_int_equal(found.length, sizeof(bytes) - 1);
    assert_memory_equal(found.bytes, bytes, found.length);
}

/* Holes in a sparse file serve as long lines. */
static void test_a_line_that_is_too_long(void **state)
{
    struct fixture *fixture = *state;
    _cleanup_jsonl_reader_ struct jsonl_reader *reader = NULL;
    static const off_t longest = JSONL_LINE_MAX_BYTES;
    const char *line;
    size_t length;

    int fd = open(fixture->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(pwrite(fd, "a\n", 2, 0), 2);
    assert_int_equal(pwrite(fd, "\nb\n", 3, 2 + longest + 1), 3);
    assert_int_equal(pwrite(fd, "\nc\n", 3, 2 + longest + 1 + 3 + longest), 3);
    close(fd);

    assert_int_equal(jsonl_reader_open(fixture->path, &reader), 0);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
    assert_memory_equal(line, "a", length);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
    assert_memory_equal(line, "b", length);
    assert_int_equal(jsonl_reader_counts(reader)->too_long, 1);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
    assert_int_equal(length, longest);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
    assert_memory_equal(line, "c", length);
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 0);
    assert_int_equal(jsonl_reader_counts(reader)->too_long, 1);
}

static void test_rotation_and_truncation_while_reading(void **state)
{
    struct fixture *fixture = *state;
    _cleanup_jsonl_ struct jsonl *jsonl = open_log(fixture, 4);
    _cleanup_jsonl_reader_ struct jsonl_reader *reader = NULL;
    const char *line;
    size_t length;

    for (const char *c = "a\0b\0c\0d\0e\0"; *c; c += 2)
        assert_int_equal(append(jsonl, c), 0);
    assert_int_equal(jsonl_reader_open(fixture->path, &reader), 0);
    for (const char *c = "f\0g\0h\0i\0j\0"; *c; c += 2)
        assert_int_equal(append(jsonl, c), 0);
    for (const char *c = "abcde"; *c; c++) {
        assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
        assert_int_equal(length, 1);
        assert_int_equal(*line, *c);
    }
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 0);
    jsonl_reader_close(TAKE_PTR(reader));

    /* The file is truncated between opening and reading. */
    assert_int_equal(jsonl_reader_open(fixture->path, &reader), 0);
    assert_int_equal(truncate(fixture->path, 0), 0);
    for (const char *c = "efgh"; *c; c++) { /* i and j were in it */
        assert_int_equal(jsonl_reader_next(reader, &line, &length), 1);
        assert_int_equal(*line, *c);
    }
    assert_int_equal(jsonl_reader_next(reader, &line, &length), 0);
}

static const char *numbered_line(int number, char into[static 128])
{
    snprintf(into, 128, "{\"n\":%d,\"x\":\"%.*s\",\"m\":%d}", number, number % 50,
             "..................................................", number);
    return into;
}

static int write_until_stopped(const struct fixture *fixture, int stop_fd)
{
    struct jsonl *jsonl;
    char line[128], byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (jsonl_open(fixture->path, 2000, &jsonl) < 0)
        return 1;
    for (int i = 0; read(stop_fd, &byte, 1) < 0; i++)
        if (append(jsonl, numbered_line(i, line)) < 0)
            return 2;
    jsonl_close(jsonl);
    return 0;
}

/* Lines must be complete and numbered consecutively. Returns the last number, or -1. */
static int check_numbers(struct jsonl_reader *reader)
{
    const char *line;
    size_t length;
    int previous = -1, r;

    while ((r = jsonl_reader_next(reader, &line, &length)) > 0) {
        char expected[128];
        int number = atoi(line + strlen("{\"n\":"));
        numbered_line(number, expected);
        assert_int_equal(length, strlen(expected));
        assert_memory_equal(line, expected, length);
        assert_true(previous < 0 || number == previous + 1);
        previous = number;
    }
    assert_int_equal(r, 0);
    return previous;
}

/* While a writer in another process rotates constantly. */
static void test_reading_while_writing(void **state)
{
    struct fixture *fixture = *state;
    int stop[2], status, most = -1;

    assert_int_equal(pipe2(stop, O_NONBLOCK), 0);
    pid_t writer = fork();
    if (writer == 0) {
        close(stop[1]);
        _exit(write_until_stopped(fixture, stop[0]));
    }
    close(stop[0]);

    for (int rounds = 0; rounds < 500 || most < 3000;) {
        _cleanup_jsonl_reader_ struct jsonl_reader *reader = NULL;
        int r = jsonl_reader_open(fixture->path, &reader);
        if (r == -ENOENT && most < 0) /* not there yet */
            continue;
        assert_int_equal(r, 0);
        most = MAX(most, check_numbers(reader));
        rounds++;
    }
    close(stop[1]);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
}

#define with_log(test) cmocka_unit_test_setup_teardown(test, make_fixture, remove_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_log(test_round_trip),
        with_log(test_directories_are_created),
        with_log(test_missing_log),
        with_log(test_rotation_keeps_the_order),
        with_log(test_lines_at_the_limit),
        with_log(test_cut_at_every_byte),
        with_log(test_long_torn_line_is_truncated),
        with_log(test_full_disk_leaves_no_torn_line),
        with_log(test_two_writers),
        with_log(test_lock_is_released_despite_a_child),
        with_log(test_file_is_moved_away),
        with_log(test_directory_is_moved_away),
        with_log(test_links_and_special_files),
        with_log(test_file_of_another_user),
        with_log(test_odd_content),
        with_log(test_a_line_that_is_too_long),
        with_log(test_rotation_and_truncation_while_reading),
        with_log(test_reading_while_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
