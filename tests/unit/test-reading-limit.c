#include "unit.h"

#include "base/clock.h"
#include "base/macros.h"
#include "engine/reading-limit.h"

#define START (1000 * NS_PER_SEC)

static void test_small_readings(void **state _unused_)
{
    struct reading_limit limit = {0};

    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(reading_limit_allows(&limit, START + i * 10 * NS_PER_MSEC));
        reading_limit_add(&limit, NS_PER_MSEC);
    }
}

/* A client in a loop: the first ones are made, then a tenth of the time. */
static void test_readings_without_pause(void **state _unused_)
{
    struct reading_limit limit = {0};
    uint64_t used_ns = 0;

    for (uint64_t now_ns = START; now_ns < START + 100 * NS_PER_SEC; now_ns += NS_PER_MSEC) {
        if (!reading_limit_allows(&limit, now_ns))
            continue;
        reading_limit_add(&limit, 20 * NS_PER_MSEC);
        used_ns += 20 * NS_PER_MSEC;
        now_ns += 20 * NS_PER_MSEC;
    }
    assert_in_range(used_ns, 9 * NS_PER_SEC, 11 * NS_PER_SEC);
}

static void test_long_reading(void **state _unused_)
{
    struct reading_limit limit = {0};

    assert_true(reading_limit_allows(&limit, START));
    reading_limit_add(&limit, 10 * NS_PER_SEC);
    assert_false(reading_limit_allows(&limit, START + 97 * NS_PER_SEC));
    assert_true(reading_limit_allows(&limit, START + 99 * NS_PER_SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_readings),
        cmocka_unit_test(test_readings_without_pause),
        cmocka_unit_test(test_long_reading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
