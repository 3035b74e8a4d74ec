#include "detect/admission.h"

#include <stdio.h>

#include "base/human.h"
#include "base/macros.h"

/* Below this share of free memory no job starts. A daemon, too, stops at 85 % of the limit. */
#define FREE_SHARE_MIN 0.15
/* Below this share the pressure is critical. */
#define FREE_SHARE_CRITICAL 0.05
/* All tasks wait for memory half of the time. */
#define PSI_FULL_CRITICAL 50
/* When to retry; the same delays as a daemon's. */
#define DELAY_SECONDS          10
#define DELAY_SECONDS_HIGH     30
#define DELAY_SECONDS_CRITICAL 60

static void reject(struct admission *ret, enum pressure level, double delay_seconds)
{
    ret->allowed = false;
    ret->level = (int)level;
    ret->delay_seconds = delay_seconds;
}

static bool is_too_large(const struct resource_estimate *estimate, double free_mb)
{
    return estimate && estimate->confidence >= ESTIMATE_MIN_CONFIDENCE &&
           estimate->estimated_peak_memory_mb > free_mb;
}

void admission_without_daemon(const struct snapshot *snapshot,
                              const struct resource_estimate *estimate, struct admission *ret)
{
    double total_mb = snapshot ? snapshot->system_memory_total_mb : REAL_UNKNOWN;
    double free_mb = snapshot ? snapshot->system_memory_available_mb : REAL_UNKNOWN;
    double psi = snapshot ? snapshot->psi.memory.full_avg10 : REAL_UNKNOWN;
    double share = free_mb / total_mb;
    struct human left, total, needed;

    *ret = (struct admission){.allowed = true, .level = PRESSURE_NONE};
    if (!real_is_known(share)) {
        reject(ret, PRESSURE_CRITICAL, DELAY_SECONDS_CRITICAL);
        snprintf(ret->reason, sizeof(ret->reason), "the free memory could not be read");
    } else if (psi >= PSI_FULL_CRITICAL) {
        reject(ret, PRESSURE_CRITICAL, DELAY_SECONDS_CRITICAL);
        snprintf(ret->reason, sizeof(ret->reason), "all tasks wait for memory %.0f %% of the time",
                 psi);
    } else if (share < FREE_SHARE_MIN) {
        bool is_critical = share < FREE_SHARE_CRITICAL;
        reject(ret, is_critical ? PRESSURE_CRITICAL : PRESSURE_HIGH,
               is_critical ? DELAY_SECONDS_CRITICAL : DELAY_SECONDS_HIGH);
        snprintf(ret->reason, sizeof(ret->reason), "only %s of %s of memory are free",
                 human_mb(&left, free_mb), human_mb(&total, total_mb));
    } else if (is_too_large(estimate, free_mb)) {
        reject(ret, PRESSURE_NONE, DELAY_SECONDS);
        snprintf(ret->reason, sizeof(ret->reason),
                 "jobs of its type need up to %s of memory, and %s of %s are free",
                 human_mb(&needed, estimate->estimated_peak_memory_mb), human_mb(&left, free_mb),
                 human_mb(&total, total_mb));
    } else {
        snprintf(ret->reason, sizeof(ret->reason), "no daemon: decided by free memory alone");
    }
}
