/* Makes the n-th allocation from now on fail, once or with all that follow. For programs that are
 * linked with --wrap for the four functions below; one file of each program includes it. */
#pragma once

#include "unit.h"

#include <errno.h>
#include <stdbool.h>

static bool is_failing;     /* whether allocations may fail now */
static bool fails_for_good; /* not only once */
static bool is_others;      /* fails those of another library, if the test distinguishes them */
static long countdown;      /* allocations until the one that fails */

/* Whether this allocation fails; `of_others`: another library made it. */
static bool fails_of(bool of_others)
{
    if (!is_failing || of_others != is_others)
        return false;
    countdown--;
    return countdown == 0 || (fails_for_good && countdown < 0);
}

static bool fails(void)
{
    return fails_of(false);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : __real_realloc(pointer, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* From now on the allocation with that number fails, counted from 1. */
static inline void start_failing(long site, bool for_good)
{
    countdown = site;
    fails_for_good = for_good;
    is_failing = true;
}

/* Whether one has failed since start_failing(). */
static inline bool has_failed(void)
{
    return countdown <= 0;
}

static inline bool stop_failing(void)
{
    is_failing = false;
    return has_failed();
}

/* Calls `attempt` with a failure at allocation 1, 1 + stride, …, until no allocation fails; that
 * call must succeed, and there must be more than `least` allocations. The other calls return 0 or
 * -ENOMEM: the code recovers from some failures, for example of a scratch list.
 *
 * When `attempt` starts, `countdown` is the number of the allocation, and fails_for_good is set. It
 * may clear is_failing around code that must not fail, and makes its own checks. Returns how many
 * calls returned -ENOMEM. */
static inline long fail_some_allocations(int (*attempt)(void), bool for_good, long stride,
                                         long least)
{
    long site = 1, errors = 0;

    for (;; site += stride) {
        start_failing(site, for_good);
        int r = attempt();
        bool is_last = !stop_failing();
        if (r != 0 && (is_last || r != -ENOMEM))
            fail_msg("allocation %ld: %d", site, r);
        if (is_last)
            break;
        errors += r < 0;
    }
    assert_true(site > least);
    return errors;
}

/* The same for every allocation. */
static inline long fail_each_allocation(int (*attempt)(void), bool for_good, long least)
{
    return fail_some_allocations(attempt, for_good, 1, least);
}
