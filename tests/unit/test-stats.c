#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/kendall.h"
#include "stats/order.h"
#include "stats/quantile.h"
#include "stats/theil-sen.h"

static int compare_descending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

static void test_kth_largest_against_sorting(void **state _unused_)
{
    double values[64], sorted[64];

    srand(3);
    for (int round = 0; round < 5000; round++) {
        size_t count = 1 + (size_t)rand() % ARRAY_SIZE(values);
        for (size_t i = 0; i < count; i++)
            values[i] = sorted[i] = rand() % 20; /* many ties */
        qsort(sorted, count, sizeof(*sorted), compare_descending);
        size_t k = 1 + (size_t)rand() % count;
        assert_true(order_kth_largest(values, count, k) == sorted[k - 1]);
        for (size_t i = 0; i < k; i++)
            assert_true(values[i] >= sorted[k - 1]);
    }
}

/* As R's quantile(c(15, 20, 35, 40, 50), p) has it. */
static void test_quantile_by_a_known_example(void **state _unused_)
{
    static const struct {
        double p, value;
    } cases[] = {{0, 15},   {0.05, 16}, {0.25, 20}, {0.3, 23},
                 {0.4, 29}, {0.5, 35},  {0.95, 48}, {1, 50}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        double values[] = {50, 15, 40, 35, 20};
        assert_true(fabs(quantile(values, ARRAY_SIZE(values), cases[i].p) - cases[i].value) < 1e-9);
    }
    double one[] = {7};
    assert_true(quantile(one, 1, 0.95) == 7);
}

static void test_quantile_against_sorting(void **state _unused_)
{
    double values[40], sorted[40];

    srand(4);
    for (int round = 0; round < 5000; round++) {
        size_t count = 1 + (size_t)rand() % ARRAY_SIZE(values);
        for (size_t i = 0; i < count; i++)
            values[i] = sorted[i] = rand() % 20;
        qsort(sorted, count, sizeof(*sorted), compare_descending);
        double p = (double)(rand() % 101) / 100, place = (double)(count - 1) * p;
        double low = sorted[count - 1 - (size_t)floor(place)];
        double high = sorted[count - 1 - (size_t)ceil(place)];
        double wanted = low + (place - floor(place)) * (high - low);
        assert_true(fabs(quantile(values, count, p) - wanted) < 1e-9);
    }
}

/* The slope of a line of which a quarter of the points are outliers. */
static void test_theil_sen_with_outliers(void **state _unused_)
{
    enum { COUNT = 40 };
    double x[COUNT], y[COUNT], scratch[THEIL_SEN_SCRATCH(COUNT)];

    srand(5);
    for (int i = 0; i < COUNT; i++) {
        x[i] = 3 * i + rand() % 3;
        y[i] = i % 4 == 1 ? rand() % 100000 : 7 + 2.5 * x[i];
    }
    assert_true(fabs(theil_sen_slope(x, y, COUNT, scratch) - 2.5) < 0.1);
}

static void test_theil_sen_by_hand(void **state _unused_)
{
    const double x[] = {0, 1, 2, 4}, y[] = {0, 3, 4, 4};
    double scratch[THEIL_SEN_SCRATCH(4)];

    /* 3, 2, 1, 1, 1/3, 0: the median lies between 1 and 1. */
    assert_true(theil_sen_slope(x, y, 4, scratch) == 1);
    assert_true(theil_sen_slope(x, y, 1, scratch) == 0);
    const double same[] = {1, 1, 1, 1};
    assert_true(theil_sen_slope(same, y, 4, scratch) == 0);
}

static void test_kendall_by_hand(void **state _unused_)
{
    static const struct {
        double y[5];
        double tau;
    } cases[] = {
        {{1, 2, 3, 4, 5}, 1},   {{5, 4, 3, 2, 1}, -1},  {{1, 1, 1, 1, 1}, 0},
        {{1, 2, 3, 5, 4}, 0.8}, {{1, 1, 2, 2, 2}, 0.6}, {{2, 1, 4, 3, 5}, 0.6},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_true(fabs(kendall_tau_a(cases[i].y, 5) - cases[i].tau) < 1e-12);
    assert_true(kendall_tau_a(cases[0].y, 1) == 0);
    assert_true(kendall_tau_a(cases[0].y, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kth_largest_against_sorting),
        cmocka_unit_test(test_quantile_by_a_known_example),
        cmocka_unit_test(test_quantile_against_sorting),
        cmocka_unit_test(test_theil_sen_with_outliers),
        cmocka_unit_test(test_theil_sen_by_hand),
        cmocka_unit_test(test_kendall_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
