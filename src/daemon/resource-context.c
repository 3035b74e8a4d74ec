#include "daemon/resource-context.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json-writer.h"
#include "daemon/daemon-state.h"

/* The shares of system calls: from a tracer if it has reported lately, else from the latest
 * snapshot.
 */
static struct tally_list shares_of(const struct daemon *daemon,
                                   const struct process_metric *process, struct arena *arena)
{
    const struct syscall_profile *calls =
        tracing_calls(engine_tracing(daemon->engine), (pid_t)process->pid, process->start_ticks);
    struct tally_list shares = {0};

    if (calls && syscall_profile_shares(calls, SYSCALL_SHARE_EXACT, arena, &shares) == 0)
        return shares;
    return process->syscall_time_pct;
}

/* Formats the system call with the most time, such as "write 40%"; NULL: unknown. */
static const char *hotspot_of(const struct daemon *daemon, const struct process_metric *process,
                              char *into, size_t size)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct tally *most = NULL;

    if (!process)
        return NULL;
    const struct tally_list shares = shares_of(daemon, process, &arena);
    for (size_t i = 0; i < shares.count; i++) {
        const struct tally *tally = &shares.items[i];
        if (!most || tally->value > most->value)
            most = tally;
    }
    if (!most)
        return NULL;
    snprintf(into, size, "%s %.0f%%", most->name, most->value);
    return into;
}

static bool is_listed(const struct anomaly_list *open, size_t before, const char *type)
{
    for (size_t i = 0; i < before; i++)
        if (strcmp(open->items[i].anomaly_type, type) == 0)
            return true;
    return false;
}

/* The types of all open episodes, each once. */
static void write_anomalies(const struct daemon *daemon, struct json_writer *json)
{
    const struct detector *detector = engine_detector(daemon->engine);
    _cleanup_(arena_done) struct arena arena = {0};
    struct anomaly_list open = {0};

    if (detector && detector_list_open(detector, &arena, &open) < 0)
        open.count = 0;
    json_write_begin_array(json);
    for (size_t i = 0; i < open.count; i++)
        if (!is_listed(&open, i, open.items[i].anomaly_type))
            json_write_string(json, open.items[i].anomaly_type);
    json_write_end_array(json);
}

static void write_machine(const struct snapshot *latest, struct json_writer *json)
{
    json_write_key(json, "pressure_level");
    json_write_string(json, pressure_name(latest->pressure_level));
    json_write_key(json, "running_jobs");
    json_write_int(json, latest->running_jobs);
    json_write_key(json, "active_sheets");
    json_write_int(json, latest->active_sheets);
}

/* The process in the latest snapshot; NULL: it is not there, or `viewer` may not see it. */
static const struct process_metric *find_process(struct daemon *daemon, int64_t viewer, pid_t pid)
{
    const struct process_metric *process = pid ? live_find_process(&daemon->live, pid) : NULL;
    bool sees_all = viewer == 0 || viewer == (int64_t)geteuid();

    if (!process || sees_all || process->uid == viewer)
        return process;
    return daemon_owner_of(daemon, process->run_id) == viewer ? process : NULL;
}

void resource_context_write(struct daemon *daemon, int64_t viewer, pid_t pid, bool is_of_process,
                            struct text *out)
{
    const struct process_metric *process = find_process(daemon, viewer, pid);
    const struct snapshot *latest = daemon->live.latest;
    struct json_writer json = {.out = out};
    char hotspot[64];

    json_write_begin_object(&json);
    json_write_key(&json, "rss_mb");
    json_write_decimal(&json, process ? process->rss_mb : REAL_UNKNOWN, 1);
    json_write_key(&json, "cpu_pct");
    json_write_decimal(&json, process ? process->cpu_percent : REAL_UNKNOWN, 1);
    json_write_key(&json, "syscall_hotspot");
    json_write_string(&json, hotspot_of(daemon, process, hotspot, sizeof(hotspot)));
    json_write_key(&json, "anomalies_active");
    write_anomalies(daemon, &json);
    if (latest) {
        json_write_key(&json, "daemon_rss_mb");
        json_write_decimal(&json, latest->daemon_rss_mb, 1);
        if (!is_of_process)
            write_machine(latest, &json);
    }
    json_write_end_object(&json);
}
