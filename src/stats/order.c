#include "stats/order.h"

static void swap(double *a, double *b)
{
    double value = *a;
    *a = *b;
    *b = value;
}

/* Splits [low, high] so that values before *ret_left are ≥ the pivot and values after *ret_right
 * are ≤ it. The pivot is the middle value, so that sorted input is fast. */
static void partition(double *values, ptrdiff_t low, ptrdiff_t high, ptrdiff_t *ret_left,
                      ptrdiff_t *ret_right)
{
    double pivot = values[low + (high - low) / 2];

    while (low <= high) {
        while (values[low] > pivot)
            low++;
        while (values[high] < pivot)
            high--;
        if (low <= high)
            swap(&values[low++], &values[high--]);
    }
    *ret_left = low;
    *ret_right = high;
}

double order_kth_largest(double *values, size_t count, size_t k)
{
    ptrdiff_t low = 0, high = (ptrdiff_t)count - 1, wanted = (ptrdiff_t)k - 1;

    while (low < high) {
        ptrdiff_t left, right;
        partition(values, low, high, &left, &right);
        if (wanted <= right)
            high = right;
        else if (wanted >= left)
            low = left;
        else
            break;
    }
    return values[wanted];
}
