/* Tests of proportions, multiple testing and outliers: against published tables, R 4.2.2, and
 * simple slow implementations. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/benjamini-hochberg.h"
#include "stats/fisher.h"
#include "stats/robust.h"
#include "stats/wilson.h"

/* ---- Fisher ---- */

/* fisher.test(matrix(c(a, b, c, d), 2))$p.value; the first is Fisher's lady tasting tea (The Design
 * of Experiments, 1935). */
static void test_fisher_as_in_r(void **state _unused_)
{
    static const struct {
        int64_t a, b, c, d;
        double p;
    } cases[] = {
        {3, 1, 1, 3, 0.485714285714286},
        {1, 9, 11, 3, 0.00275945618522009},
        {10, 2, 3, 15, 0.000536724119143437},
        {2, 15, 10, 3, 0.000536724119143436},
        {0, 5, 5, 0, 0.00793650793650794},
        {5, 0, 1, 4, 0.0476190476190476},
        {8, 2, 1, 5, 0.0349650349650349},
        {7, 12, 0, 5, 0.272068511198946},
        {40, 10, 15, 135, 2.2207010088242e-20},
        {12, 3, 20, 165, 1.23187921171386e-08},
        {30, 0, 70, 900, 1.20893318997792e-32},
        {1200, 4800, 9000, 85000, 4.58468261995878e-121},
        {2, 8, 40, 150, 1},
        {500, 4500, 9500, 85500, 1},
        {1, 1, 1, 1, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_close(fisher_exact(cases[i].a, cases[i].b, cases[i].c, cases[i].d), cases[i].p,
                     1e-9);
}

static void test_fisher_of_empty_tables(void **state _unused_)
{
    assert_true(fisher_exact(0, 0, 0, 0) == 1);
    assert_true(fisher_exact(0, 10, 0, 10) == 1);
    assert_true(fisher_exact(7, 0, 9, 0) == 1);
    assert_true(fisher_exact(0, 0, 3, 4) == 1);
    assert_true(fisher_exact(5, 6, 0, 0) == 1);
    /* An underflow gives 0, not NaN. */
    assert_true(fisher_exact(50000, 0, 0, 50000) == 0);
}

static double choose(int64_t n, int64_t k)
{
    double value = 1;

    for (int64_t i = 1; i <= k; i++)
        value = value * (double)(n - k + i) / (double)i;
    return value;
}

static double fisher_slowly(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t row = a + b, column = a + c, all = row + c + d;
    double observed = choose(column, a) * choose(all - column, row - a), sum = 0;

    for (int64_t x = 0; x <= MIN(row, column); x++)
        if (row - x <= all - column) {
            double weight = choose(column, x) * choose(all - column, row - x);
            sum += weight <= observed * (1 + 1e-7) ? weight : 0;
        }
    return sum / choose(all, row);
}

static void test_fisher_against_counting(void **state _unused_)
{
    for (int64_t a = 0; a < 9; a++)
        for (int64_t b = 0; b < 9; b++)
            for (int64_t c = 0; c < 9; c++)
                for (int64_t d = 0; d < 9; d++)
                    assert_close(fisher_exact(a, b, c, d), fisher_slowly(a, b, c, d), 1e-12);
}

/* ---- Wilson ---- */

/* The first four are the examples of Newcombe, Statistics in Medicine 17 (1998) 857, table I, where
 * method 3 gives 0.2553 to 0.3662, 0.0624 to 0.1605, 0 to 0.1611 and 0.0061 to 0.1718. All are
 * prop.test(hits, count, correct = FALSE)$conf.int, which binom.confint(…, methods = "wilson")
 * gives as well. */
static void test_wilson_as_in_r(void **state _unused_)
{
    static const struct {
        int64_t hits, count;
        double low, high;
    } cases[] = {
        {81, 263, 0.255288519878274, 0.3662095769828},
        {15, 148, 0.0623863995307363, 0.160487241723308},
        {0, 20, 0, 0.161125158052819},
        {1, 29, 0.00611321429276266, 0.171755218793203},
        {0, 10, 0, 0.277532799862889},
        {10, 10, 0.722467200137111, 1},
        {5, 10, 0.236593090512564, 0.763406909487436},
        {8, 10, 0.490162471536642, 0.943317848545625},
        {40, 50, 0.669628940677746, 0.887562499842239},
        {1, 3, 0.0614919447203963, 0.792340399197952},
        {0, 1, 0, 0.793450685622763},
        {1, 1, 0.206549314377238, 1},
        {12345, 100000, 0.121425617754522, 0.125503311160565},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct interval interval = wilson_interval(cases[i].hits, cases[i].count);
        assert_close(interval.low, cases[i].low, 1e-12);
        assert_close(interval.high, cases[i].high, 1e-12);
    }
}

/* ---- Benjamini and Hochberg ---- */

#define TESTS_MAX 15

static void assert_adjusted(const double *p, const double *wanted, size_t count)
{
    struct hypothesis_test tests[TESTS_MAX];

    for (size_t i = 0; i < count; i++)
        tests[i] = (struct hypothesis_test){.p = p[i], .number = i};
    benjamini_hochberg(tests, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || tests[i].p >= tests[i - 1].p);
        assert_close(tests[i].q, wanted[tests[i].number], 1e-12);
    }
}

/* p.adjust(p, "BH") of the example of the paper, where the first four of fifteen are discoveries at
 * a rate of 0.05. */
static void test_adjusted_as_in_the_paper(void **state _unused_)
{
    static const double p[] = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                               0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0};
    static const double q[] = {
        0.0015, 0.003,  0.0095, 0.035625,          0.0603,   0.0638571428571429, 0.0638571428571429,
        0.0645, 0.0765, 0.486,  0.581181818181818, 0.714875, 0.753230769230769,  0.813214285714286,
        1};
    size_t discoveries = 0;

    assert_adjusted(p, q, ARRAY_SIZE(p));
    for (size_t i = 0; i < ARRAY_SIZE(q); i++)
        discoveries += q[i] <= 0.05;
    assert_int_equal(discoveries, 4);
}

static void test_adjusted_in_any_order(void **state _unused_)
{
    static const double p[] = {0.9, 0.001, 0.04, 0.04, 1, 0.2};
    static const double q[] = {1, 0.006, 0.08, 0.08, 1, 0.3};
    static const double even[] = {0.01, 0.02, 0.03, 0.04, 0.05};
    static const double alike[] = {0.05, 0.05, 0.05, 0.05, 0.05};

    assert_adjusted(p, q, ARRAY_SIZE(p));
    assert_adjusted(even, alike, ARRAY_SIZE(even));
    assert_adjusted(p, p, 0);
    assert_adjusted((double[]){0.3}, (double[]){0.3}, 1);
}

/* ---- robust z ---- */

/* median(x), mad(x) and (9.9 - median(x)) / mad(x). */
static void test_spread_as_in_r(void **state _unused_)
{
    double some[] = {9.9, 2.1, 2.5, 2.3, 2.2, 2.4}, others[] = {9, 1, 6, 1, 4, 2, 2};

    struct robust_spread spread = robust_spread(some, ARRAY_SIZE(some));
    assert_close(spread.median, 2.35, 1e-12);
    assert_close(spread.deviation, 0.22239, 1e-12);
    assert_close(robust_z(&spread, 9.9), 33.9493682269886, 1e-12);
    assert_close(robust_z(&spread, 2.1), -0.25 / 0.22239, 1e-9);
    spread = robust_spread(others, ARRAY_SIZE(others));
    assert_close(spread.median, 2, 0);
    assert_close(spread.deviation, 1.4826, 1e-12);
}

static void test_spread_of_mostly_equal_values(void **state _unused_)
{
    double mostly[] = {5, 5, 5, 5, 15}, same[] = {5, 5, 5};

    struct robust_spread spread = robust_spread(mostly, ARRAY_SIZE(mostly));
    assert_close(spread.deviation, 1.2533 * 2, 1e-12);
    assert_close(robust_z(&spread, 15), 10 / 2.5066, 1e-9);
    spread = robust_spread(same, ARRAY_SIZE(same));
    assert_true(spread.deviation == 0);
    assert_true(robust_z(&spread, 5) == 0);
    assert_true(robust_z(&spread, 5.1) == (double)INFINITY);
    assert_true(robust_z(&spread, 4.9) == (double)-INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fisher_as_in_r),
        cmocka_unit_test(test_fisher_of_empty_tables),
        cmocka_unit_test(test_fisher_against_counting),
        cmocka_unit_test(test_wilson_as_in_r),
        cmocka_unit_test(test_adjusted_as_in_the_paper),
        cmocka_unit_test(test_adjusted_in_any_order),
        cmocka_unit_test(test_spread_as_in_r),
        cmocka_unit_test(test_spread_of_mostly_equal_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
