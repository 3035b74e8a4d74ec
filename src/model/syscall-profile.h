/* System calls of a process or of a run, added up: how often each was called, how long it took from
 * entry to return, how often it failed.
 *
 * Sums come from any source. One that only samples knows of no calls: its counts stay 0, and its
 * times are those that the samples stand for. No I/O, no clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "model/field.h"
#include "model/syscall-name.h"

struct syscall_sum {
    unsigned call;
    uint64_t count;
    uint64_t ns;
    uint64_t errors;
};

/* Zero-initialised is empty. */
struct syscall_profile {
    struct VEC(struct syscall_sum) sums; /* in the order of their calls */
};

void syscall_profile_done(struct syscall_profile *profile);
void syscall_profile_clear(struct syscall_profile *profile);
static inline bool syscall_profile_is_empty(const struct syscall_profile *profile)
{
    return profile->sums.count == 0;
}

/* 0 or -ENOMEM, with the profile as it was, or a part of it added. */
int syscall_profile_add(struct syscall_profile *profile, const struct syscall_sum *sum);
int syscall_profile_add_all(struct syscall_profile *profile, const struct syscall_profile *more);

/* What lists can be made of. */
enum syscall_figure {
    SYSCALL_COUNTS,
    SYSCALL_SECONDS,
    SYSCALL_ERRORS,
};

/* {name: value}, most first; native and 32-bit calls of one name are one, and what is 0 is left
 * out. The list is placed in `arena`, and null if no call was counted. 0 or -ENOMEM. */
int syscall_profile_list(const struct syscall_profile *profile, enum syscall_figure figure,
                         struct arena *arena, struct tally_list *ret);
/* {name: share of the time in all calls, 0 to 100}, rounded to `resolution` points; null if no time
 * was spent in any. */
int syscall_profile_shares(const struct syscall_profile *profile, double resolution,
                           struct arena *arena, struct tally_list *ret);

/* All lists of a run, from any source; all unknown if the profile is empty. 0 or -ENOMEM. */
struct run_syscalls;
int syscall_profile_fill_run(const struct syscall_profile *profile, int source, int exactness,
                             struct arena *arena, struct run_syscalls *ret);

/* Of what is exact, as the fields that hold it have it; and of what was sampled: more would be
 * noise, and different in every row. */
#define SYSCALL_SHARE_EXACT   0.01
#define SYSCALL_SHARE_SAMPLED 1.0

/* "read 80% (1000003), write 20% (1000000); 2000121 in all": those with most time, `shown` at most.
 */
struct text;
void syscall_profile_format(const struct syscall_profile *profile, size_t shown, struct text *out);
