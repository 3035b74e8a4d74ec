#include "stats/kendall.h"

double kendall_tau_a(const double *y, size_t count)
{
    long balance = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            balance += (y[k] > y[i]) - (y[k] < y[i]);
    return count < 2 ? 0 : (double)balance / ((double)count * (double)(count - 1) / 2);
}
