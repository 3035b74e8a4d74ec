#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "rpc/codec.h"

static void expect_line(struct rpc_framer *framer, const char *expected)
{
    const char *line;
    size_t length;

    if (!expected) {
        assert_false(rpc_framer_next(framer, &line, &length));
        return;
    }
    assert_true(rpc_framer_next(framer, &line, &length));
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(line, expected, length);
}

static int feed(struct rpc_framer *framer, const char *text)
{
    return rpc_framer_feed(framer, text, strlen(text));
}

static void test_lines_are_cut(void **state _unused_)
{
    struct rpc_framer framer = {0};

    expect_line(&framer, NULL);
    assert_false(rpc_framer_has_partial(&framer));
    assert_int_equal(feed(&framer, "zero\n"), 0);
    assert_false(rpc_framer_has_partial(&framer)); /* the line is complete, but not read yet */
    expect_line(&framer, "zero");
    assert_int_equal(feed(&framer, "one\ntw"), 0);
    assert_true(rpc_framer_has_partial(&framer));
    expect_line(&framer, "one");
    expect_line(&framer, NULL);
    assert_int_equal(feed(&framer, "o\r\n\n\r\n  \nthree"), 0);
    expect_line(&framer, "two");
    expect_line(&framer, "  ");
    expect_line(&framer, NULL);
    assert_int_equal(feed(&framer, "\r"), 0);
    expect_line(&framer, NULL);
    assert_int_equal(feed(&framer, "\n"), 0);
    expect_line(&framer, "three");
    assert_int_equal(rpc_framer_feed(&framer, "a\0b\n", 4), 0);
    const char *line;
    size_t length;
    assert_true(rpc_framer_next(&framer, &line, &length));
    assert_int_equal(length, 3);
    rpc_framer_done(&framer);
}

static void test_lines_do_not_depend_on_the_splitting(void **state _unused_)
{
    static const char stream[] = "{\"a\":1}\n\nb\r\nccc\n\r\nd\re\n";

    for (size_t first = 0; first < strlen(stream); first++)
        for (size_t second = first; second < strlen(stream); second++) {
            struct rpc_framer framer = {0};
            assert_int_equal(rpc_framer_feed(&framer, stream, first), 0);
            assert_int_equal(rpc_framer_feed(&framer, stream + first, second - first), 0);
            assert_int_equal(feed(&framer, stream + second), 0);
            expect_line(&framer, "{\"a\":1}");
            expect_line(&framer, "b");
            expect_line(&framer, "ccc");
            expect_line(&framer, "d\re");
            expect_line(&framer, NULL);
            rpc_framer_done(&framer);
        }
}

static void test_longest_line(void **state _unused_)
{
    struct rpc_framer framer = {.max_bytes = 4};

    assert_int_equal(feed(&framer, "1234\n1234\r\n"), 0);
    expect_line(&framer, "1234");
    expect_line(&framer, "1234");
    assert_int_equal(feed(&framer, "1234"), 0);
    assert_int_equal(feed(&framer, "\r"), 0); /* may belong to a newline */
    assert_int_equal(feed(&framer, "\n"), 0);
    expect_line(&framer, "1234");
    rpc_framer_done(&framer);
}

static void test_line_that_is_too_long(void **state _unused_)
{
    static const char *const pieces[][3] = {
        {"12345", NULL},       {"12345\n", NULL},     {"123", "45", NULL},
        {"1234\r", "5", NULL}, {"1234", "5\n", NULL}, {"1234\r", "\r\n", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct rpc_framer framer = {.max_bytes = 4};
        size_t k = 0;
        assert_int_equal(feed(&framer, "ok\n"), 0);
        for (; pieces[i][k + 1]; k++)
            assert_int_equal(feed(&framer, pieces[i][k]), 0);
        assert_int_equal(feed(&framer, pieces[i][k]), -EMSGSIZE);
        assert_int_equal(feed(&framer, "x\n"), -EMSGSIZE);
        expect_line(&framer, "ok"); /* it was complete before */
        expect_line(&framer, NULL);
        rpc_framer_done(&framer);
    }

    struct rpc_framer framer = {.max_bytes = 4};
    assert_int_equal(feed(&framer, "a\nb\n12345\nc\n"), -EMSGSIZE);
    expect_line(&framer, "a");
    expect_line(&framer, "b");
    expect_line(&framer, NULL);
    rpc_framer_done(&framer);
}

/* Quadratic time (a quarter of a million squared) would exceed the timeout of this test. */
static void test_splitting_costs_linear_time(void **state _unused_)
{
    struct rpc_framer framer = {0};
    const char *line;
    size_t length;

    for (size_t i = 0; i < RPC_REQUEST_MAX_BYTES; i++) {
        assert_int_equal(rpc_framer_feed(&framer, "x", 1), 0);
        assert_false(rpc_framer_next(&framer, &line, &length));
    }
    assert_int_equal(feed(&framer, "\n"), 0);
    assert_true(rpc_framer_next(&framer, &line, &length));
    assert_int_equal(length, RPC_REQUEST_MAX_BYTES);
    assert_int_equal(rpc_framer_feed(&framer, "x", 1), 0);
    assert_in_range(framer.buffer.capacity, 0, 65536); /* what it held is not kept */
    rpc_framer_done(&framer);

    /* Many lines are pending, and one is read for each that arrives. */
    for (size_t i = 0; i < 500000; i++)
        assert_int_equal(feed(&framer, "line\n"), 0);
    for (size_t i = 0; i < 500000; i++) {
        assert_true(rpc_framer_next(&framer, &line, &length));
        assert_int_equal(feed(&framer, "line\n"), 0);
    }
    rpc_framer_done(&framer);
    assert_int_equal(framer.buffer.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_cut),
        cmocka_unit_test(test_lines_do_not_depend_on_the_splitting),
        cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_line_that_is_too_long),
        cmocka_unit_test(test_splitting_costs_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
