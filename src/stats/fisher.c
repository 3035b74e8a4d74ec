#include "stats/fisher.h"

#include "base/macros.h"

/* Tables whose probabilities differ by less are equally likely; see fisher.h. */
#define EQUALLY_LIKELY (1 + 1e-7)

/* All tables with these marginal sums. Their probabilities are computed relative to the most likely
 * one, each from its neighbour by a ratio, without factorials or logarithms. */
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

/* Returns the probability of the table with this `a`, relative to that of the mode. */
static double relative_probability(const struct tables *tables, int64_t mode, int64_t a)
{
    double weight = 1;

    for (int64_t at = mode; at < a && weight > 0; at++)
        weight *= ratio_up(tables, at);
    for (int64_t at = mode; at > a && weight > 0; at--)
        weight /= ratio_up(tables, at - 1);
    return weight;
}

struct sums {
    double unlikely; /* tables that are not more likely than the observed one */
    double all;
};

static void add_weight(struct sums *sums, double weight, double observed)
{
    sums->all += weight;
    if (weight <= observed * EQUALLY_LIKELY)
        sums->unlikely += weight;
}

/* Adds up all tables from the mode outwards. Their weights decrease, so the loops stop at 0. */
static double compute_p_value(const struct tables *tables, int64_t mode, double observed)
{
    struct sums sums = {0};
    double weight = 1;

    add_weight(&sums, 1, observed);
    for (int64_t at = mode; at < tables->most && weight > 0; at++)
        add_weight(&sums, weight *= ratio_up(tables, at), observed);
    weight = 1;
    for (int64_t at = mode; at > tables->least && weight > 0; at--)
        add_weight(&sums, weight /= ratio_up(tables, at - 1), observed);
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
    return compute_p_value(&tables, mode, relative_probability(&tables, mode, a));
}
