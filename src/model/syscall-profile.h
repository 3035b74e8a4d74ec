/* Sums of system calls of a process or a run: number of calls, time from entry to return, number of
 * failures.
 *
 * Any source can add sums. A sampling source does not know the number of calls: its counts stay 0,
 * and its times are those that the samples represent. No I/O, no clock. */
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

/* Zero-initialised means empty. */
struct syscall_profile {
    struct VEC(struct syscall_sum) sums; /* sorted by call */
};

void syscall_profile_done(struct syscall_profile *profile);
void syscall_profile_clear(struct syscall_profile *profile);
static inline bool syscall_profile_is_empty(const struct syscall_profile *profile)
{
    return profile->sums.count == 0;
}

/* Return 0, or -ENOMEM with nothing or only a part added. */
int syscall_profile_add(struct syscall_profile *profile, const struct syscall_sum *sum);
int syscall_profile_add_all(struct syscall_profile *profile, const struct syscall_profile *more);

/* Figures for syscall_profile_list(). */
enum syscall_figure {
    SYSCALL_COUNTS,
    SYSCALL_SECONDS,
    SYSCALL_ERRORS,
};

/* Builds {name: value}, largest first. Native and 32-bit calls of one name are merged, and zeros
 * omitted. `arena` owns the list, which is null if no call was counted. Returns 0 or -ENOMEM. */
int syscall_profile_list(const struct syscall_profile *profile, enum syscall_figure figure,
                         struct arena *arena, struct tally_list *ret);
/* Builds {name: share of the time in all calls, 0 to 100}, rounded to `resolution` percentage
 * points; null if the total time is 0. */
int syscall_profile_shares(const struct syscall_profile *profile, double resolution,
                           struct arena *arena, struct tally_list *ret);

/* Builds all lists of a run from any source; all unknown if the profile is empty. Returns 0 or
 * -ENOMEM. */
struct run_syscalls;
int syscall_profile_fill_run(const struct syscall_profile *profile, int source, int exactness,
                             struct arena *arena, struct run_syscalls *ret);

/* Resolutions of shares. Exact shares use the resolution of their fields. For sampled shares more
 * would be noise, and different in every stored row. */
#define SYSCALL_SHARE_EXACT   0.01
#define SYSCALL_SHARE_SAMPLED 1.0

/* Appends "read 80% (1000003), write 20% (1000000); 2000121 in all": the calls with the most time,
 * at most `shown`. */
struct text;
void syscall_profile_format(const struct syscall_profile *profile, size_t shown, struct text *out);
