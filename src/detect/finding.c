#include "detect/finding.h"

#include <string.h>

#include "base/human.h"
#include "base/utf8.h"
#include "model/cause.h"

/* A command line in a description: enough to distinguish processes. */
#define COMMAND_COLUMNS 60
/* A limit in bytes as well, because zero-width characters take no columns. */
#define COMMAND_BYTES 160

typedef void (*describe_fn)(const char *name, const struct finding_figures *figures,
                            struct text *out);

static void describe_spike(const char *name, const struct finding_figures *figures,
                           struct text *out)
{
    struct human from, to, time;

    text_printf(out, "%s grew from %s to %s in %s", name, human_mb(&from, figures->of),
                human_mb(&to, figures->value), human_duration(&time, figures->seconds));
}

static void describe_runaway(const char *name, const struct finding_figures *figures,
                             struct text *out)
{
    struct human time;

    text_printf(out, "%s has been at %.0f %% CPU or more for %s, now %.0f %%", name,
                figures->threshold, human_duration(&time, figures->seconds), figures->value);
}

static void describe_zombie(const char *name, const struct finding_figures *figures,
                            struct text *out)
{
    text_printf(out, "%.0f %s ended and not been reaped by %s parent: %s", figures->value,
                figures->value > 1 ? "processes have" : "process has",
                figures->value > 1 ? "their" : "its", name);
}

static void describe_fds(const char *name, const struct finding_figures *figures, struct text *out)
{
    struct human open, limit;

    text_printf(out, "%s has %s ", name, human_count(&open, (uint64_t)figures->value));
    if (real_is_known(figures->of))
        text_printf(out, "of %s ", human_count(&limit, (uint64_t)figures->of));
    text_append_string(out, "file descriptors open");
}

static void describe_pressure(const char *name _unused_, const struct finding_figures *figures,
                              struct text *out)
{
    struct human available, total;

    text_printf(out, "%s of %s of memory are available", human_mb(&available, figures->value),
                human_mb(&total, figures->of));
}

static void describe_oom(const char *name, const struct finding_figures *figures, struct text *out)
{
    struct human peak;

    text_printf(out, "%s was " OOM_KILL_TEXT, name);
    if (real_is_known(figures->value))
        text_printf(out, ", when it had %s", human_mb(&peak, figures->value));
}

static void describe_leak(const char *name, const struct finding_figures *figures, struct text *out)
{
    struct human growth, time;

    text_printf(out, "%s has grown by %s in %s without a pause", name,
                human_mb(&growth, figures->value), human_duration(&time, figures->seconds));
}

static void describe_stuck(const char *name, const struct finding_figures *figures,
                           struct text *out)
{
    struct human time;

    text_printf(out, "%s has been waiting in the kernel (state D) for %s", name,
                human_duration(&time, figures->value));
}

static const struct kind {
    const char *name;
    describe_fn describe;
    bool less_is_worse;
} kinds[ANOMALY_KINDS] = {
    [ANOMALY_MEMORY_SPIKE] = {"memory_spike", describe_spike},
    [ANOMALY_RUNAWAY_PROCESS] = {"runaway_process", describe_runaway},
    [ANOMALY_ZOMBIE] = {"zombie", describe_zombie},
    [ANOMALY_FD_EXHAUSTION] = {"fd_exhaustion", describe_fds},
    [ANOMALY_MEMORY_PRESSURE] = {"memory_pressure", describe_pressure, .less_is_worse = true},
    [ANOMALY_OOM_KILL] = {"oom_kill", describe_oom},
    [ANOMALY_MEMORY_LEAK] = {"memory_leak", describe_leak},
    [ANOMALY_STUCK_PROCESS] = {"stuck_process", describe_stuck},
};

const char *anomaly_kind_name(enum anomaly_kind kind)
{
    return kinds[kind].name;
}

bool finding_value_is_worse(enum anomaly_kind kind, double value, double other, double factor)
{
    if (!real_is_known(value) || !real_is_known(other))
        return real_is_known(value);
    if (kinds[kind].less_is_worse)
        return value < other && value <= other / factor;
    return value > other && value >= other * factor;
}

bool finding_is_worse(enum anomaly_kind kind, const struct finding_figures *figures,
                      const struct finding_figures *other)
{
    if (figures->severity != other->severity)
        return figures->severity > other->severity;
    return finding_value_is_worse(kind, figures->value, other->value, 1);
}

void finding_name_subject(const struct finding_subject *subject, struct text *out)
{
    char command[COMMAND_BYTES] = "";

    /* All users can read a finding without an owner, but they may not see command lines. */
    if (subject->command && int_is_known(subject->uid))
        utf8_clean(command, sizeof(command), subject->command, strlen(subject->command));
    text_append_visible(out, command, strlen(command), COMMAND_COLUMNS);
    if (int_is_known(subject->pid))
        text_printf(out, command[0] ? " (pid %lld)" : "pid %lld", (long long)subject->pid);
    else if (!command[0])
        text_append_string(out, "a process");
}

void finding_describe(enum anomaly_kind kind, const char *name,
                      const struct finding_figures *figures, struct text *out)
{
    kinds[kind].describe(name, figures, out);
}
