#include "engine/run-summary.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "loop/signals.h"

#define BYTES_PER_MB 1048576.0

void run_facts_add_reaped(struct run_facts *facts, const struct rusage *usage)
{
    facts->reaped_user_ns += (uint64_t)usage->ru_utime.tv_sec * NS_PER_SEC +
                             (uint64_t)usage->ru_utime.tv_usec * NS_PER_USEC;
    facts->reaped_system_ns += (uint64_t)usage->ru_stime.tv_sec * NS_PER_SEC +
                               (uint64_t)usage->ru_stime.tv_usec * NS_PER_USEC;
    facts->reaped_peak_bytes = MAX(facts->reaped_peak_bytes, (int64_t)usage->ru_maxrss * 1024);
}

/* Why the command was killed, with the sender where sonde has seen it. */
static void describe_signal(const struct run_facts *facts, char *into, size_t size)
{
    int number = WTERMSIG(facts->wait_status);
    const struct sent_signal *sent = &facts->passed_on;
    int used = snprintf(into, size, "killed by %s%s", signal_name(number),
                        WCOREDUMP(facts->wait_status) ? ", core dumped" : "");

    if (sent->number == number && sent->sender_command[0])
        snprintf(into + used, size - (size_t)used, ", sent by pid %d (%s)", (int)sent->sender_pid,
                 sent->sender_command);
    else if (sent->number == number)
        snprintf(into + used, size - (size_t)used, ", sent by pid %d", (int)sent->sender_pid);
    else if (facts->from_terminal == number)
        snprintf(into + used, size - (size_t)used, ", from the terminal");
}

static int fill_outcome(const struct run_facts *facts, struct arena *arena,
                        struct run_summary *summary)
{
    char cause[256] = "";

    if (WIFSIGNALED(facts->wait_status)) {
        summary->signal_num = WTERMSIG(facts->wait_status);
        describe_signal(facts, cause, sizeof(cause));
    } else {
        summary->exit_code = WEXITSTATUS(facts->wait_status);
        if (summary->exit_code != 0)
            snprintf(cause, sizeof(cause), "exit status %d", (int)summary->exit_code);
    }
    summary->outcome = cause[0] ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    if (!cause[0])
        return 0;
    summary->cause = arena_strdup(arena, cause);
    return summary->cause ? 0 : -ENOMEM;
}

static void fill_cpu(const struct run_facts *facts, struct run_summary *summary)
{
    const struct run_usage *usage = facts->usage;
    uint64_t user_ns = usage ? usage->accounted.user_ns : facts->reaped_user_ns;
    uint64_t total_ns =
        usage ? usage->accounted.total_ns : facts->reaped_user_ns + facts->reaped_system_ns;
    int exactness = usage && !usage->cpu_is_incomplete ? EXACT : LOWER_BOUND;

    summary->cpu_seconds = ns_to_sec(total_ns);
    summary->user_seconds = ns_to_sec(MIN(user_ns, total_ns));
    summary->system_seconds = ns_to_sec(total_ns - MIN(user_ns, total_ns));
    summary->exactness.cpu_seconds = exactness;
    summary->exactness.user_seconds = exactness;
    summary->exactness.system_seconds = exactness;
}

/* When the largest process was at its largest, the sums were at least that; of a single process
 * they are just that. */
static void fill_memory(const struct run_facts *facts, struct run_summary *summary)
{
    const struct run_usage *usage = facts->usage;
    int64_t peak = usage ? usage->peak_rss_bytes : facts->reaped_peak_bytes;
    bool is_single = facts->saw_every_process && facts->processes == 1;

    summary->exactness.peak_rss_mb = usage && !usage->rss_is_incomplete ? EXACT : LOWER_BOUND;
    if (!int_is_known(peak))
        return;
    int64_t total = usage && !is_single ? MAX(usage->peak_total_bytes, peak) : peak;
    int64_t unique = usage && !is_single ? MAX(usage->peak_unique_bytes, peak) : peak;
    summary->peak_rss_mb = (double)peak / BYTES_PER_MB;
    summary->peak_total_mb = (double)total / BYTES_PER_MB;
    summary->peak_unique_mb = (double)unique / BYTES_PER_MB;

    int sums = usage ? SAMPLED : LOWER_BOUND;
    summary->exactness.peak_total_mb = is_single ? summary->exactness.peak_rss_mb : sums;
    summary->exactness.peak_unique_mb = summary->exactness.peak_total_mb;
}

static bool is_left_running(const struct process_metric *process)
{
    return process->job_id && process->state != 'Z' && process->state != 'X';
}

static int fill_left_running(const struct run_facts *facts, struct arena *arena,
                             struct run_summary *summary)
{
    const struct process_list *processes = facts->latest ? &facts->latest->processes : NULL;
    size_t count = 0;

    for (size_t i = 0; processes && i < processes->count; i++)
        count += is_left_running(&processes->items[i]);
    if (!count)
        return 0;

    struct left_process_list *left = &summary->left_running;
    left->items = arena_alloc(arena, count * sizeof(*left->items));
    if (!left->items)
        return -ENOMEM;
    for (size_t i = 0; i < processes->count; i++) {
        const struct process_metric *process = &processes->items[i];
        if (!is_left_running(process))
            continue;
        const char *command = arena_strdup(arena, process->command);
        if (!command)
            return -ENOMEM;
        left->items[left->count++] = (struct left_process){.pid = process->pid, .command = command};
    }
    return 0;
}

int run_summary_make(const struct run_facts *facts, const struct job_run_options *options,
                     struct arena *arena, struct run_summary *ret)
{
    record_init(&run_summary_record, ret);
    ret->run_id = arena_strdup(arena, options->run_id);
    ret->job_id = arena_strdup(arena, options->job_id);
    ret->job_type = arena_strdup(arena, options->job_type);
    if (!ret->run_id || !ret->job_id || !ret->job_type)
        return -ENOMEM;

    ret->sheet_num = options->sheet_num;
    ret->started_at = ns_to_sec(facts->started_real_ns);
    ret->wall_seconds = ns_to_sec(facts->wall_ns);
    ret->processes = (int64_t)facts->processes;
    ret->exactness.processes = facts->saw_every_process ? EXACT : LOWER_BOUND;
    ret->num_samples = facts->usage ? (int64_t)facts->usage->samples : 0;
    ret->gap_seconds = facts->gap_seconds;
    ret->collector = "procfs";
    fill_cpu(facts, ret);
    fill_memory(facts, ret);
    int r = fill_outcome(facts, arena, ret);
    return r < 0 ? r : fill_left_running(facts, arena, ret);
}
