#include "stats/benjamini-hochberg.h"

#include <math.h>
#include <stdlib.h>

static int compare_p(const void *a, const void *b)
{
    const struct hypothesis_test *left = a, *right = b;

    if (left->p != right->p)
        return left->p < right->p ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

void benjamini_hochberg(struct hypothesis_test *tests, size_t count)
{
    double least = 1;

    if (count)
        qsort(tests, count, sizeof(*tests), compare_p);
    for (size_t rank = count; rank > 0; rank--) {
        least = fmin(least, tests[rank - 1].p * (double)count / (double)rank);
        tests[rank - 1].q = least;
    }
}
