#include "stats/fisher.h"

#include "base/macros.h"

#define LIKELY_AS (1 + 1e-7)

/* The probabilities of all tables with these sums, as multiples of the likeliest one's: each is had
 * from its neighbour by a ratio, so that no factorial, nor its logarithm, has to be taken. */
struct tables {
    int64_t row;    /* a + b */
    int64_t column; /* a + c */
    int64_t all;
    int64_t least; /* values that `a` can have */
    int64_t most;
};

/* P(a + 1) / P(a) */
static double ratio_up(const struct tables *tables, int64_t a)
{
    double b = (double)(tables->row - a), c = (double)(tables->column - a);
    double d = (double)(tables->all - tables->row - tables->column + a);

    return b * c / ((double)(a + 1) * (d + 1));
}

static int64_t find_mode(const struct tables *tables)
{
    double mode = (double)(tables->row + 1) * (double)(tables->column + 1);

    return MIN(MAX((int64_t)(mode / (double)(tables->all + 2)), tables->least), tables->most);
}

/* What the observed table weighs against that of the mode. */
static double weigh(const struct tables *tables, int64_t mode, int64_t a)
{
    double weight = 1;

    for (int64_t at = mode; at < a && weight > 0; at++)
        weight *= ratio_up(tables, at);
    for (int64_t at = mode; at > a && weight > 0; at--)
        weight /= ratio_up(tables, at - 1);
    return weight;
}

struct sums {
    double unlikely; /* no more likely than the observed one */
    double all;
};

static void add(struct sums *sums, double weight, double observed)
{
    sums->all += weight;
    if (weight <= observed * LIKELY_AS)
        sums->unlikely += weight;
}

/* Outwards from the mode, the weights only fall: what has become 0 stays so. */
static double sum_up(const struct tables *tables, int64_t mode, double observed)
{
    struct sums sums = {0};
    double weight = 1;

    add(&sums, 1, observed);
    for (int64_t at = mode; at < tables->most && weight > 0; at++)
        add(&sums, weight *= ratio_up(tables, at), observed);
    weight = 1;
    for (int64_t at = mode; at > tables->least && weight > 0; at--)
        add(&sums, weight /= ratio_up(tables, at - 1), observed);
    return MIN(sums.unlikely / sums.all, 1.0);
}

double fisher_exact(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const struct tables tables = {
        .row = a + b,
        .column = a + c,
        .all = a + b + c + d,
        .least = MAX(a - d, (int64_t)0),
        .most = MIN(a + b, a + c),
    };

    if (tables.least == tables.most)
        return 1;
    int64_t mode = find_mode(&tables);
    return sum_up(&tables, mode, weigh(&tables, mode, a));
}
