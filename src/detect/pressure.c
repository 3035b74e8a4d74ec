#include "detect/pressure.h"

#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "detect/admission-constants.h"
#include "detect/admission.h"

/* The share that `auto` means; the rest is for other processes. */
#define AUTO_SHARE (LIMITS_AUTO_PCT / 100.0)
/* Width of a reported name in a reason. */
#define NAME_COLUMNS 40

struct pressure_limits pressure_limits_resolve(const struct limits_config *config,
                                               double memory_total_mb, int64_t pids_limit)
{
    struct pressure_limits limits = {.max_memory_mb = config->max_memory_mb,
                                     .max_processes = config->max_processes};

    if (!real_is_known(limits.max_memory_mb))
        limits.max_memory_mb = AUTO_SHARE * memory_total_mb;
    if (!int_is_known(limits.max_processes) && int_is_known(pids_limit))
        limits.max_processes = (int64_t)(AUTO_SHARE * (double)pids_limit);
    return limits;
}

struct pressure_input pressure_input_of(const struct snapshot *snapshot)
{
    struct pressure_input input = {.psi_memory_full_avg10 = REAL_UNKNOWN, .has_failed = !snapshot};

    if (!snapshot)
        return input;
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (!process->job_id && !process->run_id)
            continue;
        input.processes++;
    }
    input.unique_mb = snapshot->jobs_unique_mb;
    input.psi_memory_full_avg10 = snapshot->psi.memory.full_avg10;
    return input;
}

const char *pressure_name(int level)
{
    return field_enum_name(record_find(&snapshot_record, "pressure_level"), level);
}

/* ---- causes of pressure ---- */

static bool has_failed(const struct pressure_limits *limits, const struct pressure_input *input)
{
    return input->has_failed || !real_is_known(input->unique_mb) ||
           !int_is_known(input->processes) || !real_is_known(limits->max_memory_mb) ||
           !int_is_known(limits->max_processes);
}

static double memory_ratio(const struct pressure_limits *limits, const struct pressure_input *input)
{
    return input->unique_mb / limits->max_memory_mb;
}

static bool has_too_many(const struct pressure_limits *limits, const struct pressure_input *input)
{
    return (double)input->processes / (double)limits->max_processes > PROCESS_RATIO;
}

static enum pressure level_of_probe(const struct pressure_limits *limits,
                                    const struct pressure_input *input)
{
    return has_failed(limits, input) ? PRESSURE_CRITICAL : PRESSURE_NONE;
}

static enum pressure level_of_memory(const struct pressure_limits *limits,
                                     const struct pressure_input *input)
{
    enum pressure level = PRESSURE_CRITICAL;

    while (level > PRESSURE_NONE &&
           !(memory_ratio(limits, input) > pressure_thresholds[level].memory_ratio))
        level--;
    return level;
}

static enum pressure level_of_processes(const struct pressure_limits *limits,
                                        const struct pressure_input *input)
{
    return has_too_many(limits, input) ? PRESSURE_CRITICAL : PRESSURE_NONE;
}

static enum pressure level_of_psi(const struct pressure_limits *limits _unused_,
                                  const struct pressure_input *input)
{
    enum pressure level = PRESSURE_CRITICAL;

    while (level > PRESSURE_NONE &&
           !(input->psi_memory_full_avg10 >= pressure_thresholds[level].psi_full_avg10))
        level--;
    return level;
}

static enum pressure level_of_rate_limit(const struct pressure_limits *limits _unused_,
                                         const struct pressure_input *input)
{
    return input->rate_limited_seconds > 0 ? PRESSURE_HIGH : PRESSURE_NONE;
}

static void describe_probe(const struct pressure_limits *limits, const struct pressure_input *input,
                           struct text *out)
{
    if (input->has_failed)
        text_append_string(out, "the machine could not be read");
    else if (!real_is_known(limits->max_memory_mb))
        text_append_string(out, "the size of the memory could not be read; "
                                "set limits.max_memory_mb");
    else if (!int_is_known(limits->max_processes))
        text_append_string(out, "the limit of processes could not be read; "
                                "set limits.max_processes");
    else
        text_append_string(out, "the usage of jobs could not be read");
}

static void describe_memory(const struct pressure_limits *limits,
                            const struct pressure_input *input, struct text *out)
{
    struct human used, limit;

    text_printf(out, "jobs use %s of %s of memory", human_mb(&used, input->unique_mb),
                human_mb(&limit, limits->max_memory_mb));
}

static void describe_processes(const struct pressure_limits *limits,
                               const struct pressure_input *input, struct text *out)
{
    struct human used, limit;

    text_printf(out, "jobs have %s of %s processes", human_count(&used, (uint64_t)input->processes),
                human_count(&limit, (uint64_t)limits->max_processes));
}

static void describe_psi(const struct pressure_limits *limits _unused_,
                         const struct pressure_input *input, struct text *out)
{
    text_printf(out, "all tasks wait for memory %.0f %% of the time", input->psi_memory_full_avg10);
}

static void describe_rate_limit(const struct pressure_limits *limits _unused_,
                                const struct pressure_input *input, struct text *out)
{
    struct human left;

    if (input->rate_limit_name && input->rate_limit_name[0]) {
        text_append_string(out, "the rate limit of ");
        text_append_visible(out, input->rate_limit_name, strlen(input->rate_limit_name),
                            NAME_COLUMNS);
    } else {
        text_append_string(out, "a rate limit");
    }
    text_printf(out, " applies for another %s", human_duration(&left, input->rate_limited_seconds));
}

/* The first cause that gives the highest level is the reason. After a failed probe only the first
 * one is valid: it gives the highest level, which ends the search. */
static const struct cause {
    enum pressure (*level)(const struct pressure_limits *limits,
                           const struct pressure_input *input);
    void (*describe)(const struct pressure_limits *limits, const struct pressure_input *input,
                     struct text *out);
} causes[] = {
    {level_of_probe, describe_probe},           {level_of_memory, describe_memory},
    {level_of_processes, describe_processes},   {level_of_psi, describe_psi},
    {level_of_rate_limit, describe_rate_limit},
};

/* Returns the strongest cause, or NULL if there is no pressure. */
static const struct cause *find_cause(const struct pressure_limits *limits,
                                      const struct pressure_input *input, enum pressure *ret_level)
{
    const struct cause *strongest = NULL;

    *ret_level = PRESSURE_NONE;
    for (size_t i = 0; i < ARRAY_SIZE(causes) && *ret_level < PRESSURE_CRITICAL; i++) {
        enum pressure level = causes[i].level(limits, input);
        if (level > *ret_level) {
            *ret_level = level;
            strongest = &causes[i];
        }
    }
    return strongest;
}

enum pressure pressure_level(const struct pressure_limits *limits,
                             const struct pressure_input *input)
{
    enum pressure level;

    find_cause(limits, input, &level);
    return level;
}

/* ---- admission ---- */

/* If memory ran out, the reason is truncated. */
static void set_reason(struct admission *admission, const struct text *reason)
{
    utf8_clean(admission->reason, sizeof(admission->reason), text_string(reason), reason->length);
}

void pressure_can_start_sheet(const struct pressure_limits *limits,
                              const struct pressure_input *input, struct admission *ret)
{
    _cleanup_text_ struct text reason = {0};
    enum pressure level;
    const struct cause *strongest = find_cause(limits, input, &level);

    if (strongest)
        strongest->describe(limits, input, &reason);
    *ret = (struct admission){.allowed = level < PRESSURE_CRITICAL,
                              .delay_seconds = pressure_thresholds[level].delay_seconds,
                              .level = level};
    set_reason(ret, &reason);
}

/* Returns whether the estimate has enough confidence and exceeds the free memory. If so, appends
 * the reason. */
static bool is_too_large(const struct pressure_limits *limits, const struct pressure_input *input,
                         const struct resource_estimate *estimate, struct text *out)
{
    double free_mb = limits->max_memory_mb - input->unique_mb;
    struct human needed, left, limit;

    if (!estimate || !admission_uses_estimate(estimate) ||
        !(estimate->estimated_peak_memory_mb > free_mb))
        return false;
    text_printf(out, "jobs of its type need up to %s of memory, and %s of %s are free",
                human_mb(&needed, estimate->estimated_peak_memory_mb),
                human_mb(&left, MAX(free_mb, 0.0)), human_mb(&limit, limits->max_memory_mb));
    return true;
}

/* Returns whether a job is rejected; if so, appends the reason. Pressure that passes by itself
 * (PSI, a rate limit) delays a step, but does not reject a job. */
static bool is_rejected(const struct pressure_limits *limits, const struct pressure_input *input,
                        const struct resource_estimate *estimate, struct text *out)
{
    if (has_failed(limits, input)) {
        describe_probe(limits, input, out);
        return true;
    }
    if (memory_ratio(limits, input) > ACCEPT_MEMORY_RATIO) {
        describe_memory(limits, input, out);
        return true;
    }
    if (has_too_many(limits, input)) {
        describe_processes(limits, input, out);
        return true;
    }
    return is_too_large(limits, input, estimate, out);
}

void pressure_should_accept_job(const struct pressure_limits *limits,
                                const struct pressure_input *input,
                                const struct resource_estimate *estimate, struct admission *ret)
{
    _cleanup_text_ struct text reason = {0};
    enum pressure level;
    const struct cause *strongest = find_cause(limits, input, &level);
    bool rejected = is_rejected(limits, input, estimate, &reason);

    if (!rejected && strongest)
        strongest->describe(limits, input, &reason);
    *ret = (struct admission){
        .allowed = !rejected,
        .delay_seconds =
            rejected ? MAX(pressure_thresholds[level].delay_seconds, (double)RETRY_SECONDS) : 0,
        .level = level,
    };
    set_reason(ret, &reason);
}
