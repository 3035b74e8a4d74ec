#include "detect/admission-constants.h"

#include <math.h>

#include "base/macros.h"
#include "detect/admission.h"

/* Estimates with less confidence are ignored. */
#define ESTIMATE_MIN_CONFIDENCE 0.5

const struct pressure_threshold pressure_thresholds[PRESSURE_CRITICAL + 1] = {
    [PRESSURE_NONE] = {-1, -1, 0},        [PRESSURE_LOW] = {0.50, INFINITY, 2},
    [PRESSURE_MEDIUM] = {0.70, 10, 10},   [PRESSURE_HIGH] = {0.85, 25, 30},
    [PRESSURE_CRITICAL] = {0.95, 50, 60},
};

bool admission_uses_estimate(const struct resource_estimate *estimate)
{
    return estimate->confidence >= ESTIMATE_MIN_CONFIDENCE;
}

/* ---- documentation ---- */

void pressure_markdown(struct text *out)
{
    text_append_string(out, "| measure |");
    for (int level = PRESSURE_LOW; level <= PRESSURE_CRITICAL; level++)
        text_printf(out, " %s |", pressure_name(level));
    text_append_string(out, "\n| --- | --- | --- | --- | --- |\n"
                            "| memory of all job processes ÷ `limits.max_memory_mb` |");
    for (int level = PRESSURE_LOW; level <= PRESSURE_CRITICAL; level++)
        text_printf(out, " > %.2f |", pressure_thresholds[level].memory_ratio);
    text_printf(out,
                "\n| job processes ÷ `limits.max_processes` | | | | > %g |\n"
                "| PSI, memory, `full_avg10`: the share of time in which all tasks wait for memory "
                "|",
                PROCESS_RATIO);
    for (int level = PRESSURE_LOW; level <= PRESSURE_CRITICAL; level++) {
        double psi = pressure_thresholds[level].psi_full_avg10;
        if (isinf(psi))
            text_append_string(out, " |");
        else
            text_printf(out, " ≥ %g |", psi);
    }
    text_append_string(out, "\n| a reported rate limit is still in force | | | yes | |\n"
                            "| the figures could not be read, or a limit is unknown | | | | yes |\n"
                            "| delay before a step starts |");
    for (int level = PRESSURE_LOW; level <= PRESSURE_CRITICAL; level++)
        text_printf(out, " %g s%s |", pressure_thresholds[level].delay_seconds,
                    level == PRESSURE_CRITICAL ? ", and the step may not start" : "");
    text_printf(out, "\n| delay until a refused job asks again (%d s without pressure) |",
                RETRY_SECONDS);
    for (int level = PRESSURE_LOW; level <= PRESSURE_CRITICAL; level++)
        text_printf(out, " %g s |",
                    MAX(pressure_thresholds[level].delay_seconds, (double)RETRY_SECONDS));
    text_append_char(out, '\n');
}

void admission_with_daemon_list(struct text *out)
{
    text_printf(out,
                "- The processes of all jobs together use more than %.0f %% of "
                "limits.max_memory_mb.\n"
                "- Jobs have more than %.0f %% of limits.max_processes.\n"
                "- One of these figures could not be read, or a limit is unknown.\n"
                "- The memory estimate (p95) of the job's type exceeds the free memory below the "
                "limit, and its confidence is %g or more.\n\n",
                100 * ACCEPT_MEMORY_RATIO, 100 * PROCESS_RATIO, ESTIMATE_MIN_CONFIDENCE);
}

void admission_without_daemon_list(struct text *out)
{
    const struct pressure_threshold *critical = &pressure_thresholds[PRESSURE_CRITICAL];

    text_printf(out,
                "- Less than %.0f %% of the memory is available. Below %.0f %% the level is "
                "critical, else high.\n"
                "- All tasks wait for memory for %g %% of the time or more (PSI, full_avg10).\n"
                "- The available memory could not be read.\n"
                "- The memory estimate (p95) of the job's type exceeds the available memory, and "
                "its confidence is %g or more.\n\n",
                100 * (1 - ACCEPT_MEMORY_RATIO), 100 * (1 - critical->memory_ratio),
                critical->psi_full_avg10, ESTIMATE_MIN_CONFIDENCE);
}
