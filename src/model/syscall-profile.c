#include "model/syscall-profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/job.h"

void syscall_profile_done(struct syscall_profile *profile)
{
    VEC_DONE(&profile->sums);
}

void syscall_profile_clear(struct syscall_profile *profile)
{
    profile->sums.count = 0;
}

/* Returns the index of a call's sum, or where to insert it. */
static size_t find_place(const struct syscall_profile *profile, unsigned call)
{
    size_t first = 0, behind = profile->sums.count;

    while (first < behind) {
        size_t middle = first + (behind - first) / 2;
        if (profile->sums.items[middle].call < call)
            first = middle + 1;
        else
            behind = middle;
    }
    return first;
}

int syscall_profile_add(struct syscall_profile *profile, const struct syscall_sum *sum)
{
    size_t place = find_place(profile, sum->call);
    struct syscall_sum *there = place < profile->sums.count ? &profile->sums.items[place] : NULL;

    if (there && there->call == sum->call) {
        there->count += sum->count;
        there->ns += sum->ns;
        there->errors += sum->errors;
        return 0;
    }
    int r = VEC_RESERVE(&profile->sums, profile->sums.count + 1);
    if (r < 0)
        return r;
    there = &profile->sums.items[place];
    memmove(there + 1, there, (profile->sums.count - place) * sizeof(*there));
    *there = *sum;
    profile->sums.count++;
    return 0;
}

int syscall_profile_add_all(struct syscall_profile *profile, const struct syscall_profile *more)
{
    int r = 0;

    for (size_t i = 0; i < more->sums.count && r == 0; i++)
        r = syscall_profile_add(profile, &more->sums.items[i]);
    return r;
}

/* ---- as lists ---- */

static int add_tally(struct tally_list *list, unsigned call, double value, struct arena *arena)
{
    char made[SYSCALL_NAME_SIZE];
    const char *name = syscall_name(call, made);
    /* Only a 32-bit call can repeat a name. */
    const struct tally *there = call >= SYSCALL_COMPAT ? tally_find(list, name) : NULL;

    if (there) {
        list->items[there - list->items].value += value;
        return 0;
    }
    if (name == made)
        name = arena_strdup(arena, made);
    if (!name)
        return -ENOMEM;
    list->items[list->count++] = (struct tally){.name = name, .value = value};
    return 0;
}

static int compare_tallies(const void *a, const void *b)
{
    const struct tally *left = a, *right = b;

    if (left->value != right->value)
        return left->value < right->value ? 1 : -1;
    return strcmp(left->name, right->name);
}

/* Builds a list of one value per sum, without zeros. */
static int list_values(const struct syscall_profile *profile, const double *values,
                       struct arena *arena, struct tally_list *ret)
{
    struct tally_list list = {
        .items = arena_alloc(arena, MAX(profile->sums.count, (size_t)1) * sizeof(*list.items))};
    int r = list.items ? 0 : -ENOMEM;

    for (size_t i = 0; i < profile->sums.count && r == 0; i++)
        if (values[i] > 0)
            r = add_tally(&list, profile->sums.items[i].call, values[i], arena);
    if (r < 0)
        return r;
    qsort(list.items, list.count, sizeof(*list.items), compare_tallies);
    *ret = list;
    return 0;
}

static double figure_of(const struct syscall_sum *sum, enum syscall_figure figure)
{
    switch (figure) {
    case SYSCALL_COUNTS: return (double)sum->count;
    case SYSCALL_SECONDS: return (double)sum->ns / 1e9;
    case SYSCALL_ERRORS: return (double)sum->errors;
    }
    return 0;
}

static uint64_t calls_of(const struct syscall_profile *profile)
{
    uint64_t calls = 0;

    for (size_t i = 0; i < profile->sums.count; i++)
        calls += profile->sums.items[i].count;
    return calls;
}

int syscall_profile_list(const struct syscall_profile *profile, enum syscall_figure figure,
                         struct arena *arena, struct tally_list *ret)
{
    size_t count = profile->sums.count;

    if (!calls_of(profile))
        return 0;
    _cleanup_free_ double *values = malloc(count * sizeof(*values));
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        values[i] = figure_of(&profile->sums.items[i], figure);
    return list_values(profile, values, arena, ret);
}

static double time_of(const struct syscall_profile *profile)
{
    double ns = 0;

    for (size_t i = 0; i < profile->sums.count; i++)
        ns += (double)profile->sums.items[i].ns;
    return ns;
}

int syscall_profile_shares(const struct syscall_profile *profile, double resolution,
                           struct arena *arena, struct tally_list *ret)
{
    size_t count = profile->sums.count;
    _cleanup_free_ double *values = malloc(MAX(count, (size_t)1) * sizeof(*values));
    double whole = time_of(profile);

    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        values[i] =
            round(100 * (double)profile->sums.items[i].ns / whole / resolution) * resolution;
    return whole > 0 ? list_values(profile, values, arena, ret) : 0;
}

/* ---- as text ---- */

/* Returns the sum with the next lower time. NULL as argument returns the first; NULL as result ends
 * the list. */
static const struct syscall_sum *find_next(const struct syscall_profile *profile,
                                           const struct syscall_sum *before)
{
    const struct syscall_sum *next = NULL;

    for (size_t i = 0; i < profile->sums.count; i++) {
        const struct syscall_sum *sum = &profile->sums.items[i];
        bool is_behind = !before || sum->ns < before->ns || (sum->ns == before->ns && sum > before);
        if (is_behind && (!next || sum->ns > next->ns))
            next = sum;
    }
    return next;
}

void syscall_profile_format(const struct syscall_profile *profile, size_t shown, struct text *out)
{
    double whole = time_of(profile);
    const struct syscall_sum *sum = NULL;
    char name[SYSCALL_NAME_SIZE];
    size_t i = 0;

    while (i < shown && (sum = find_next(profile, sum)) && 200 * (double)sum->ns >= whole)
        text_printf(out, "%s%s %.0f%% (%llu)", i++ ? ", " : "", syscall_name(sum->call, name),
                    whole > 0 ? 100 * (double)sum->ns / whole : 0, (unsigned long long)sum->count);
    text_printf(out, "; %llu in all", (unsigned long long)calls_of(profile));
}

int syscall_profile_fill_run(const struct syscall_profile *profile, int source, int exactness,
                             struct arena *arena, struct run_syscalls *ret)
{
    struct run_syscalls known = {.source = source, .exactness = exactness};

    *ret = (struct run_syscalls){0};
    if (syscall_profile_is_empty(profile))
        return 0;
    int r = syscall_profile_shares(profile, SYSCALL_SHARE_EXACT, arena, &known.hotspots);
    if (r == 0)
        r = syscall_profile_list(profile, SYSCALL_COUNTS, arena, &known.counts);
    if (r == 0)
        r = syscall_profile_list(profile, SYSCALL_SECONDS, arena, &known.seconds);
    if (r == 0)
        r = syscall_profile_list(profile, SYSCALL_ERRORS, arena, &known.errors);
    if (r == 0)
        *ret = known;
    return r;
}
