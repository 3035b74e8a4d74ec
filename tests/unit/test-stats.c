#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/order.h"

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
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kth_largest_against_sorting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
