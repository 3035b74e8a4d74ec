#include "detect/admission.h"

#include <stdio.h>

#include "base/human.h"
#include "base/macros.h"
#include "detect/admission-constants.h"

static void reject(struct admission *ret, enum pressure level)
{
    ret->allowed = false;
    ret->level = (int)level;
    ret->delay_seconds = MAX(pressure_thresholds[level].delay_seconds, (double)RETRY_SECONDS);
}

static bool is_too_large(const struct resource_estimate *estimate, double free_mb)
{
    return estimate && admission_uses_estimate(estimate) &&
           estimate->estimated_peak_memory_mb > free_mb;
}

void admission_without_daemon(const struct snapshot *snapshot,
                              const struct resource_estimate *estimate, struct admission *ret)
{
    double total_mb = snapshot ? snapshot->system_memory_total_mb : REAL_UNKNOWN;
    double free_mb = snapshot ? snapshot->system_memory_available_mb : REAL_UNKNOWN;
    double psi = snapshot ? snapshot->psi.memory.full_avg10 : REAL_UNKNOWN;
    double used_ratio = 1 - free_mb / total_mb;
    const struct pressure_threshold *critical = &pressure_thresholds[PRESSURE_CRITICAL];
    struct human left, total, needed;

    *ret = (struct admission){.allowed = true, .level = PRESSURE_NONE};
    if (!real_is_known(used_ratio)) {
        reject(ret, PRESSURE_CRITICAL);
        snprintf(ret->reason, sizeof(ret->reason), "the free memory could not be read");
    } else if (psi >= critical->psi_full_avg10) {
        reject(ret, PRESSURE_CRITICAL);
        snprintf(ret->reason, sizeof(ret->reason), "all tasks wait for memory %.0f %% of the time",
                 psi);
    } else if (used_ratio > ACCEPT_MEMORY_RATIO) {
        reject(ret, used_ratio > critical->memory_ratio ? PRESSURE_CRITICAL : PRESSURE_HIGH);
        snprintf(ret->reason, sizeof(ret->reason), "only %s of %s of memory are free",
                 human_mb(&left, free_mb), human_mb(&total, total_mb));
    } else if (is_too_large(estimate, free_mb)) {
        reject(ret, PRESSURE_NONE);
        snprintf(ret->reason, sizeof(ret->reason),
                 "jobs of its type need up to %s of memory, and %s of %s are free",
                 human_mb(&needed, estimate->estimated_peak_memory_mb), human_mb(&left, free_mb),
                 human_mb(&total, total_mb));
    } else {
        snprintf(ret->reason, sizeof(ret->reason), "no daemon: decided by free memory alone");
    }
}
