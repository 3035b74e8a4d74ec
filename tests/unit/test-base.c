#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/human.h"
#include "base/json-writer.h"
#include "base/map.h"
#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "base/vec.h"

/* ---- containers ---- */

static void test_map_against_a_plain_array(void **state _unused_)
{
    /* Few keys and many operations, so that probing chains are cut and mended again and again. */
    enum { KEYS = 97, STEPS = 200000 };
    static int values[KEYS];
    bool present[KEYS] = {false};
    struct map map = {0};
    size_t count = 0;

    srand(7);
    for (int step = 0; step < STEPS; step++) {
        size_t key = (size_t)rand() % KEYS;
        uint64_t spread = key * UINT64_C(0x100000001); /* keys that share low bits */
        if (rand() % 2) {
            assert_int_equal(map_put(&map, spread, &values[key]), 0);
            count += !present[key];
            present[key] = true;
        } else {
            void *removed = map_remove(&map, spread);
            assert_ptr_equal(removed, present[key] ? &values[key] : NULL);
            count -= present[key];
            present[key] = false;
        }
        assert_int_equal(map.count, count);
        for (size_t i = 0; step % 1000 == 0 && i < KEYS; i++)
            assert_ptr_equal(map_get(&map, i * UINT64_C(0x100000001)),
                             present[i] ? &values[i] : NULL);
    }
    size_t position = 0, seen = 0;
    while (map_next(&map, &position))
        seen++;
    assert_int_equal(seen, count);
    map_clear(&map);
    assert_null(map_get(&map, 0));
    map_done(&map);
}

static void test_empty_map(void **state _unused_)
{
    struct map map = {0};
    size_t position = 0;

    assert_null(map_get(&map, 1));
    assert_null(map_remove(&map, 1));
    assert_null(map_next(&map, &position));
    map_done(&map);
}

static void test_vec_grows(void **state _unused_)
{
    struct VEC(int) vec = {0};

    for (int i = 0; i < 1000; i++)
        assert_int_equal(VEC_PUSH(&vec, i), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(vec.items[i], i);
    void *items = NULL;
    size_t capacity = 0;
    assert_int_equal(vec_reserve_bytes(&items, &capacity, SIZE_MAX / 2, 8), -ENOMEM);
    assert_null(items);
    VEC_DONE(&vec);
}

static void test_arena(void **state _unused_)
{
    struct arena arena = {0};

    char *text = arena_copy(&arena, "abcdef", 3);
    assert_string_equal(text, "abc");
    for (int i = 0; i < 100; i++) {
        double *number = arena_alloc(&arena, sizeof(double) * 300);
        assert_int_equal((uintptr_t)number % _Alignof(max_align_t), 0);
        memset(number, i, sizeof(double) * 300);
        arena_strdup(&arena, "odd");
    }
    assert_string_equal(text, "abc");
    char *large = arena_alloc(&arena, 1 << 20);
    memset(large, 1, 1 << 20);
    assert_null(arena_alloc(&arena, SIZE_MAX - 8));
    arena_reset(&arena);
    assert_non_null(arena_strdup(&arena, "again"));
    arena_done(&arena);
}

/* ---- numbers ---- */

static void test_strict_integers(void **state _unused_)
{
    static const char *const refused[] = {"",    "-",   "+1",  " 1",  "1 ", "1.0", "0x10",
                                          "010", "-01", "10s", "1e3", "１", "--1", "1\n"};
    int64_t value = 42;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(number_parse_int(refused[i], &value), -EINVAL);
    assert_int_equal(value, 42);
    assert_int_equal(number_parse_int("0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(number_parse_int("9223372036854775807", &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(number_parse_int("-9223372036854775808", &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(number_parse_int("9223372036854775808", &value), -ERANGE);
    assert_int_equal(number_parse_int("-9223372036854775809", &value), -ERANGE);
    assert_int_equal(number_parse_int("99999999999999999999999", &value), -ERANGE);
}

static void test_strict_reals(void **state _unused_)
{
    static const char *const refused[] = {"",    ".5", "5.",  "nan",  "inf", "1e", "1e+",
                                          "0x1", "01", "1,5", "1.5s", "1 5", "-",  "1..2"};
    double value = 42;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(number_parse_real(refused[i], &value), -EINVAL);
    assert_int_equal(number_parse_real("1e999", &value), -ERANGE);
    assert_true(value == 42);
    assert_int_equal(number_parse_real("-0.25", &value), 0);
    assert_true(value == -0.25);
    assert_int_equal(number_parse_real("2.5e-3", &value), 0);
    assert_true(value == 0.0025);
}

static void test_durations(void **state _unused_)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"100ms", 100000000},
        {"30s", 30000000000},
        {"5m", 300000000000},
        {"2h30m", 9000000000000},
        {"1.5s", 1500000000},
        {"10", 10000000000},
        {"0.25", 250000000},
        {"1d", 86400000000000},
        {"1m30s500ms", 90500000000},
        {"0s", 0},
        {"7us", 7000},
        {"3ns", 3},
    };
    static const char *const refused[] = {"",    "s",   "10x",  "30m2h", "2m2m", "1h 2m",
                                          "-5s", "1hm", "1e3s", "010s",  "5sm",  "1h30"};
    uint64_t ns;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(number_parse_duration(good[i].text, &ns), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(number_parse_duration(refused[i], &ns), -EINVAL);
    assert_int_equal(number_parse_duration("99999999999999d", &ns), -ERANGE);
}

/* ---- text ---- */

static void test_utf8_decode(void **state _unused_)
{
    static const char *const bad[] = {"\x80",     "\xC0\x80", "\xED\xA0\x80",    "\xF4\x90\x80\x80",
                                      "\xE2\x82", "\xFF",     "\xF0\x80\x80\x80"};
    uint32_t character;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &character), 0);
    assert_int_equal(utf8_decode("€", 3, &character), 3);
    assert_int_equal(character, 0x20AC);
    for (uint32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
        char bytes[4];
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        size_t size = utf8_encode(c, bytes);
        assert_int_equal(utf8_decode(bytes, size, &character), size);
        assert_int_equal(character, c);
    }
}

static void test_utf8_clean_cuts_on_boundaries(void **state _unused_)
{
    char into[16];

    assert_int_equal(utf8_clean(into, sizeof(into),
                                "a\xFF"
                                "b",
                                3),
                     5);
    assert_string_equal(into, "a\xEF\xBF\xBD"
                              "b");
    assert_int_equal(utf8_clean(into, 6, "€€€", 9), 3); /* 5 bytes hold one of 3, not two */
    assert_string_equal(into, "€");
    assert_int_equal(utf8_clean(into, 1, "abc", 3), 0);
    assert_string_equal(into, "");
}

static void assert_visible(const char *bytes, size_t length, size_t columns, const char *expected,
                           size_t expected_columns)
{
    _cleanup_text_ struct text text = {0};
    assert_int_equal(text_append_visible(&text, bytes, length, columns), expected_columns);
    assert_string_equal(text_string(&text), expected);
}

static void test_visible_text(void **state _unused_)
{
    assert_visible("plain", 5, SIZE_MAX, "plain", 5);
    assert_visible("\033[31mred\n", 9, SIZE_MAX, "\\x1b[31mred\\n", 13);
    assert_visible("a\xFFz", 3, SIZE_MAX, "a\\xffz", 6);
    assert_visible("\xE2\x80\xAE"
                   "abc",
                   6, SIZE_MAX, "\\u202eabc", 9);
    assert_visible("\xC2\x9B", 2, SIZE_MAX, "\\x9b", 4); /* C1: a CSI in one character */
    assert_visible("abcdef", 6, 4, "abc…", 4);
    assert_visible("abcd", 4, 4, "abcd", 4);
    assert_visible("日本語", 9, 4, "日…", 3); /* two columns each */
    assert_visible("日本", 6, 4, "日本", 4);
    assert_visible("abc", 3, 0, "", 0);
    assert_visible("abc", 3, 1, "…", 1);
}

static void assert_visible_ascii(const char *bytes, size_t columns, const char *expected)
{
    _cleanup_text_ struct text text = {0};

    assert_int_equal(text_append_visible_ascii(&text, bytes, strlen(bytes), columns),
                     strlen(expected));
    assert_string_equal(text_string(&text), expected);
}

static void test_visible_ascii(void **state _unused_)
{
    assert_visible_ascii("plain\n", SIZE_MAX, "plain\\n");
    assert_visible_ascii("≥ 3 → 4 × 5 …", SIZE_MAX, ">= 3 -> 4 x 5 ...");
    assert_visible_ascii("é日", SIZE_MAX, "\\u00e9\\u65e5");
    assert_visible_ascii("abcdefgh", 6, "abc...");
    assert_visible_ascii("abcdef", 6, "abcdef");
    assert_visible_ascii("≥ abcdef", 6, ">= ...");
    assert_visible_ascii("abcdef", 3, "...");
    assert_visible_ascii("abcdef", 2, "..");
    assert_visible_ascii("abcdef", 0, "");
}

static void test_text_to_ascii(void **state _unused_)
{
    _cleanup_text_ struct text text = {0}, empty = {0};

    text_append_string(&text, "≥ \033[1m≥ é\n\xFF");
    text_to_ascii(&text, strlen("≥ "));
    assert_string_equal(text.bytes, "≥ \033[1m>= \\u00e9\n\\xff");
    text_to_ascii(&empty, 0);
    assert_string_equal(text_string(&empty), "");
}

static void test_json_writer(void **state _unused_)
{
    _cleanup_text_ struct text text = {0};
    struct json_writer json = {.out = &text};

    json_write_begin_object(&json);
    json_write_key(&json, "quoted\"key");
    json_write_string(&json, "a\"b\\c\n\t\x01\x7f\xC2\x9B€\xFF");
    json_write_key(&json, "list");
    json_write_begin_array(&json);
    json_write_int(&json, INT64_MIN);
    json_write_int(&json, 0);
    json_write_decimal(&json, 1.005, 2);
    json_write_decimal(&json, -0.001, 2);
    json_write_decimal(&json, 12.340, 3);
    json_write_decimal(&json, 1e300, 3);
    json_write_decimal(&json, NAN, 3);
    json_write_real(&json, 0.1);
    json_write_real(&json, INFINITY);
    json_write_bool(&json, true);
    json_write_null(&json);
    json_write_string(&json, NULL);
    json_write_end_array(&json);
    json_write_key(&json, "empty");
    json_write_begin_object(&json);
    json_write_end_object(&json);
    json_write_end_object(&json);
    assert_string_equal(
        text_string(&text),
        "{\"quoted\\\"key\":\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\\u009b€\xEF\xBF\xBD\","
        "\"list\":[-9223372036854775808,0,1,0,12.34,1e+300,null,0.1,null,true,null,null],"
        "\"empty\":{}}");
}

static void test_json_reals_read_back_the_same(void **state _unused_)
{
    srand(11);
    for (int i = 0; i < 20000; i++) {
        _cleanup_text_ struct text text = {0};
        struct json_writer json = {.out = &text};
        uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        json_write_real(&json, value);
        assert_true(strtod(text_string(&text), NULL) == value);
    }
}

static void test_human_figures(void **state _unused_)
{
    struct human human;

    assert_string_equal(human_duration(&human, 0.00123), "1.23 ms");
    assert_string_equal(human_duration(&human, 0.516), "516 ms");
    assert_string_equal(human_duration(&human, 12.345), "12.35 s");
    assert_string_equal(human_duration(&human, 754.9), "12 m 34 s");
    assert_string_equal(human_duration(&human, 7384), "2 h 03 m");
    assert_string_equal(human_duration(&human, NAN), "-");
    assert_string_equal(human_mb(&human, 812.44), "812.4 MB");
    assert_string_equal(human_mb(&human, 2048), "2.00 GB");
    assert_string_equal(human_count(&human, 1501), "1,501");
    assert_string_equal(human_count(&human, 12), "12");
    assert_string_equal(human_count(&human, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void test_uuid(void **state _unused_)
{
    char first[UUID_TEXT_SIZE], second[UUID_TEXT_SIZE];

    assert_int_equal(uuid_make(UINT64_C(0x017F22E279B0) * 1000000, first), 0);
    assert_int_equal(uuid_make(UINT64_C(0x017F22E279B1) * 1000000, second), 0);
    assert_int_equal(strlen(first), 36);
    assert_memory_equal(first, "017f22e2-79b0-7", 15);
    assert_non_null(strchr("89ab", first[19]));
    assert_true(strcmp(first, second) < 0);
}

/* ---- files ---- */

static void test_output_is_not_opened_through_a_planted_link(void **state)
{
    char open_dir[PATH_MAX], link_path[PATH_MAX + 8], dir_link[PATH_MAX + 8], victim[PATH_MAX];

    snprintf(open_dir, sizeof(open_dir), "%s/open", (char *)*state);
    snprintf(victim, sizeof(victim), "%s/victim", (char *)*state);
    snprintf(link_path, sizeof(link_path), "%s/link", open_dir);
    snprintf(dir_link, sizeof(dir_link), "%s/dir/x", open_dir);
    assert_int_equal(mkdir(open_dir, 0700), 0);
    assert_int_equal(chmod(open_dir, 01777), 0);
    assert_int_equal(symlink(victim, link_path), 0);
    assert_int_equal(fd_open_output(link_path, O_CREAT | O_TRUNC, 0600), -ELOOP);
    assert_int_equal(access(victim, F_OK), -1);

    char dir_only[PATH_MAX + 8];
    snprintf(dir_only, sizeof(dir_only), "%s/dir", open_dir);
    assert_int_equal(symlink((char *)*state, dir_only), 0);
    int r = fd_open_output(dir_link, O_CREAT, 0600);
    assert_true(r == -ELOOP || r == -ENOTDIR);

    /* The same link in a directory that is ours alone is followed. */
    assert_int_equal(chmod(open_dir, 0700), 0);
    int fd = fd_open_output(link_path, O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, "x", 1), 0);
    close(fd);
    struct stat st;
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* An access list that lets user 12345 write: version 2, then tag, permissions and id of each. */
static int put_access_list(const char *path)
{
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entries[5];
    } list = {2, {{1, 7, -1U}, {2, 7, 12345}, {4, 7, -1U}, {16, 7, -1U}, {32, 5, -1U}}};

    return setxattr(path, "system.posix_acl_access", &list, sizeof(list), 0);
}

/* A user's own group may write to the user's directories; another group may not. */
static void test_private_group_is_trusted(void **state)
{
    const struct passwd *user = getpwnam("daemon");
    char path[PATH_MAX];

    if (geteuid() != 0 || !user)
        skip();
    uid_t uid = user->pw_uid;
    gid_t own = user->pw_gid;
    snprintf(path, sizeof(path), "%s/shared", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    static const struct {
        mode_t mode;
        bool is_own_group, expected;
    } cases[] = {
        {0700, true, false}, {0755, false, false}, {0775, true, false},
        {0775, false, true}, {0777, true, true},   {01777, true, true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(chown(path, uid, cases[i].is_own_group ? own : own + 1), 0);
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(seteuid(uid), 0);
        bool found = fd_others_can_write(fd);
        assert_int_equal(seteuid(0), 0);
        if (found != cases[i].expected)
            fail_msg("case %zu: %d", i, found);
        assert_true(fd_others_can_write(fd)); /* for root, another user owns it */
    }

    assert_int_equal(chown(path, uid, own), 0);
    assert_int_equal(chmod(path, 0775), 0);
    if (put_access_list(path) == 0) { /* else there are none on this file system */
        assert_int_equal(seteuid(uid), 0);
        bool found = fd_others_can_write(fd);
        assert_int_equal(seteuid(0), 0);
        assert_true(found);
    }
}

static void test_output_paths(void **state)
{
    char path[PATH_MAX];

    assert_int_equal(fd_open_output("", 0, 0), -ENOENT);
    assert_int_equal(fd_open_output("/", 0, 0), -EISDIR);
    snprintf(path, sizeof(path), "%s/missing/file", (char *)*state);
    assert_int_equal(fd_open_output(path, O_CREAT, 0600), -ENOENT);
    snprintf(path, sizeof(path), "%s//.//file", (char *)*state);
    int fd = fd_open_output(path, O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void test_a_full_pipe_that_does_not_block_is_waited_for(void **state _unused_)
{
    static char bytes[1 << 20];
    int fds[2];

    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    pid_t reader = fork();
    if (reader == 0) {
        size_t total = 0;
        close(fds[1]);
        for (ssize_t n; (n = read(fds[0], bytes, sizeof(bytes))) != 0;)
            total += n > 0 ? (size_t)n : 0;
        _exit(total == sizeof(bytes) ? 0 : 1);
    }
    close(fds[0]);
    assert_int_equal(fd_write_all(fds[1], bytes, sizeof(bytes)), 0);
    close(fds[1]);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
}

static void test_read_file_is_cut_at_the_capacity(void **state)
{
    char path[PATH_MAX], bytes[8];

    snprintf(path, sizeof(path), "%s/file", (char *)*state);
    int fd = fd_open_output(path, O_CREAT, 0600);
    assert_int_equal(fd_write_all(fd, "0123456789", 10), 0);
    close(fd);
    assert_int_equal(fd_read_file(AT_FDCWD, path, bytes, sizeof(bytes)), 7);
    assert_string_equal(bytes, "0123456");
    assert_int_equal(fd_read_file(AT_FDCWD, "/nonexistent", bytes, sizeof(bytes)), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_against_a_plain_array),
        cmocka_unit_test(test_empty_map),
        cmocka_unit_test(test_vec_grows),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_strict_integers),
        cmocka_unit_test(test_strict_reals),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_utf8_decode),
        cmocka_unit_test(test_utf8_clean_cuts_on_boundaries),
        cmocka_unit_test(test_visible_text),
        cmocka_unit_test(test_visible_ascii),
        cmocka_unit_test(test_text_to_ascii),
        cmocka_unit_test(test_json_writer),
        cmocka_unit_test(test_json_reals_read_back_the_same),
        cmocka_unit_test(test_human_figures),
        cmocka_unit_test(test_uuid),
        cmocka_unit_test_setup_teardown(test_output_is_not_opened_through_a_planted_link,
                                        make_directory, remove_directory),
        cmocka_unit_test(test_a_full_pipe_that_does_not_block_is_waited_for),
        cmocka_unit_test_setup_teardown(test_private_group_is_trusted, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(test_output_paths, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_read_file_is_cut_at_the_capacity, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
