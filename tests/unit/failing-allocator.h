/* Allocations that fail when they are told to: the n-th from now on, once or for good. For programs
 * that are linked with --wrap for the four functions below; one file of each includes it. */
#pragma once

#include "unit.h"

#include <errno.h>
#include <stdbool.h>

static bool is_failing;     /* whether allocations may fail now */
static bool fails_for_good; /* not only once */
static bool is_others; /* those of another library, not our own, if the test tells them apart */
static long countdown; /* allocations until the one that fails */

/* Whether this one does; `of_others`: whose it is. */
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

/* Until a round meets no failure; `least`: there were more sites than that. Some failures are made
 * good: a list that is only scratch, opendir's own buffer. */
static inline void fail_each_allocation(int (*attempt)(void), bool for_good, long least)
{
    long site = 0;
    int r;

    do {
        countdown = ++site;
        fails_for_good = for_good;
        is_failing = true;
        r = attempt();
        is_failing = false;
        assert_true(r == 0 || r == -ENOMEM);
    } while (countdown <= 0);
    assert_int_equal(r, 0);
    assert_true(site > least);
}
