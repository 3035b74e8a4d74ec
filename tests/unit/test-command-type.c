/* The job type of a command. Linked with -Wl,--wrap for the allocators, to count allocations. */
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "cli/command-type.h"
#include "failing-allocator.h"

static const char *word_items[] = {"token", "password", "secret", "key"};
static const struct text_list words = {word_items, ARRAY_SIZE(word_items)};
static char type[JOB_ID_MAX_BYTES + 1];

static const char *type_of(const char *const *argv)
{
    command_type_format((char *const *)(uintptr_t)argv, &words, type);
    return type;
}

static void assert_type(const char *const *argv, const char *expected)
{
    char wanted[64];

    snprintf(wanted, sizeof(wanted), "%s @", expected);
    assert_has(type_of(argv), wanted);
    assert_ptr_equal(strstr(type, wanted), type);
    assert_null(strstr(type, "abc"));
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_arguments_are_redacted(void **state _unused_)
{
    assert_type(ARGV("make", "-j4", "", "test"), "make test");
    assert_type(ARGV("make"), "make");
    assert_type(ARGV("env", "API_TOKEN=abc", "true"), "env API_TOKEN=***");
    assert_type(ARGV("mysql", "--password", "abc"), "mysql ***");
    assert_type(ARGV("mysql", "--password", "--verbose", "db"), "mysql db");
    assert_type(ARGV("/opt/token=abc", "x"), "token=*** x");
}

static void test_directory_is_redacted(void **state _unused_)
{
    char top[] = "/tmp/sonde-type.XXXXXX", directory[64];
    _cleanup_free_ char *former = getcwd(NULL, 0);

    assert_non_null(mkdtemp(top));
    snprintf(directory, sizeof(directory), "%s/token=abc", top);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chdir(directory), 0);
    type_of(ARGV("make"));
    assert_int_equal(chdir(former), 0);
    rmdir(directory);
    rmdir(top);
    assert_string_equal(type, "make @token=***");
}

/* A command waits for its type, which has one of its arguments at most. */
static void test_cost_of_many_arguments(void **state _unused_)
{
    enum { COUNT = 100000, LIMIT = 1000 };
    const char **argv = calloc(COUNT + 1, sizeof(*argv));

    assert_non_null(argv);
    argv[0] = "rm";
    for (size_t i = 1; i < COUNT; i++)
        argv[i] = i < COUNT / 2 ? "--key=x" : "token=abc";
    start_failing(LIMIT, false); /* only counts: it needs fewer */
    type_of(argv);
    assert_false(stop_failing());
    assert_has(type, "rm token=*** @");
    free(argv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_are_redacted),
        cmocka_unit_test(test_directory_is_redacted),
        cmocka_unit_test(test_cost_of_many_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
