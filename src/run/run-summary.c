#include "run/run-summary.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "explain/program-kind.h"
#include "model/cause.h"
#include "model/record-copy.h"
#include "run/run-record.h"

void run_facts_add_reaped(struct run_facts *facts, const struct rusage *usage)
{
    struct cpu_and_io cpu = cpu_and_io_of(usage);

    facts->reaped.total_ns += cpu.total_ns;
    facts->reaped.user_ns += cpu.user_ns;
    facts->reaped.system_ns += cpu.system_ns;
    facts->reaped.read_bytes += cpu.read_bytes;
    facts->reaped.write_bytes += cpu.write_bytes;
    facts->reaped_peak_bytes = MAX(facts->reaped_peak_bytes, (int64_t)usage->ru_maxrss * 1024);
}

void run_facts_done(struct run_facts *facts)
{
    VEC_DONE(&facts->anomalies);
    arena_done(&facts->arena);
}

static bool is_same_episode(const struct anomaly *a, const struct anomaly *b)
{
    return a->timestamp == b->timestamp && a->pid == b->pid &&
           strcmp(a->anomaly_type, b->anomaly_type) == 0;
}

void run_facts_add_anomaly(struct run_facts *facts, const struct anomaly *anomaly)
{
    struct anomaly copy;
    size_t i = 0;

    if (record_copy(&anomaly_record, anomaly, &facts->arena, &copy) < 0)
        return;
    while (i < facts->anomalies.count && !is_same_episode(&facts->anomalies.items[i], anomaly))
        i++;
    if (i < facts->anomalies.count)
        facts->anomalies.items[i] = copy;
    else if (i < RUN_ANOMALIES_MAX)
        VEC_PUSH(&facts->anomalies, copy);
}

/* Describes the end of the command, as its parent knows it. */
static void describe_end(const struct run_facts *facts, struct process_event *ret)
{
    int number = WIFSIGNALED(facts->wait_status) ? WTERMSIG(facts->wait_status) : 0;
    const struct sent_signal *sent = &facts->passed_on[number];

    record_init(&process_event_record, ret);
    ret->details_are_calls = false;
    ret->timestamp = ns_to_sec(facts->started_real_ns + facts->wall_ns);
    ret->pid = facts->command_pid;
    ret->event_type = number ? EVENT_KILL : EVENT_EXIT;
    if (!number) {
        ret->exit_code = WEXITSTATUS(facts->wait_status);
        return;
    }
    ret->signal_num = number;
    if (WCOREDUMP(facts->wait_status))
        ret->details = "core dumped";
    if (sent->number == number) {
        ret->sender_pid = sent->sender_pid;
        ret->sender_command = sent->sender_command[0] ? sent->sender_command : NULL;
    } else if (facts->from_terminal == number) {
        ret->details = "from the terminal";
    }
}

/* Completes the end of the command in the chain. sonde, its parent, knows the command line, and the
 * signals that sonde passed on or the terminal sent. On a busy machine the end may be reported
 * before these are recorded. */
static int complete_end(const struct run_facts *facts, const struct job_run_options *options,
                        struct arena *arena, struct process_event_list *chain)
{
    struct process_event *last = &chain->items[chain->count - 1], known;

    if (last->pid != facts->command_pid)
        return 0;
    if (!last->command && !(last->command = run_record_command(options, arena)))
        return -ENOMEM;
    if (last->event_type == EVENT_EXIT && !last->details)
        last->details = program_status_meaning(last->command, last->exit_code);
    if (int_is_known(last->sender_pid) || last->details)
        return 0;
    describe_end(facts, &known);
    last->sender_pid = known.sender_pid;
    last->details = known.details;
    if (known.sender_command && !(last->sender_command = arena_strdup(arena, known.sender_command)))
        return -ENOMEM;
    return 0;
}

/* Sets the chain to the one that was found, otherwise to the end of the command. */
static int fill_chain(const struct run_facts *facts, struct arena *arena,
                      struct process_event_list *ret)
{
    struct process_event end;

    if (facts->chain.count) {
        *ret = facts->chain;
        return 0;
    }
    describe_end(facts, &end);
    ret->items = arena_alloc(arena, sizeof(*ret->items));
    if (!ret->items || record_copy(&process_event_record, &end, arena, &ret->items[0]) < 0)
        return -ENOMEM;
    ret->count = 1;
    return 0;
}

/* Returns whether the run used enough CPU time for one process to reach the limit of `sonde run`.
 * The kernel compares the limit with a sum of ticks, which on a busy machine is much higher. */
static bool may_have_reached_limit(const struct run_facts *facts)
{
    uint64_t accounted_ns = facts->usage ? facts->usage->accounted.total_ns : 0;

    return int_is_known(facts->cpu_limit_sec) &&
           1.5 * ns_to_sec(MAX(accounted_ns, facts->reaped.total_ns)) >=
               (double)facts->cpu_limit_sec;
}

/* Adds that the kernel may have sent a SIGKILL of unknown sender: at a limit of CPU time, or if it
 * made OOM kills during the run. With the BPF programs the sender is known. */
static int add_possible_reason(const struct run_facts *facts, struct arena *arena,
                               struct process_event_list *chain)
{
    struct process_event *first = &chain->items[0];
    char text[128];

    if (first->event_type != EVENT_KILL || first->signal_num != SIGKILL ||
        int_is_known(first->sender_pid) || first->details)
        return 0;
    if (may_have_reached_limit(facts))
        snprintf(text, sizeof(text), "perhaps its CPU limit of %lld s",
                 (long long)facts->cpu_limit_sec);
    else if (facts->oom_kills > 0)
        snprintf(text, sizeof(text),
                 "perhaps out of memory: the kernel made %lld OOM kill%s during the run",
                 (long long)facts->oom_kills, facts->oom_kills == 1 ? "" : "s");
    else
        return 0;
    first->details = arena_strdup(arena, text);
    return first->details ? 0 : -ENOMEM;
}

static int fill_outcome(const struct run_facts *facts, const struct job_run_options *options,
                        struct arena *arena, struct run_summary *summary)
{
    char cause[CAUSE_MAX_BYTES + 1];

    if (WIFSIGNALED(facts->wait_status))
        summary->signal_num = WTERMSIG(facts->wait_status);
    else
        summary->exit_code = WEXITSTATUS(facts->wait_status);
    bool has_failed = summary->exit_code != 0;
    summary->outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    if (!has_failed)
        return 0;
    int r = fill_chain(facts, arena, &summary->chain);
    if (r == 0)
        r = complete_end(facts, options, arena, &summary->chain);
    if (r == 0)
        r = add_possible_reason(facts, arena, &summary->chain);
    if (r < 0)
        return r;
    cause_format(&summary->chain, &facts->on_the_way, cause);
    summary->cause = cause[0] ? arena_strdup(arena, cause) : NULL;
    return summary->cause ? 0 : -ENOMEM;
}

/* The CPU time of the processes that sonde reaped is a lower bound. It may exceed the accounted
 * time if an end was reported without its usage. */
static void fill_cpu(const struct run_facts *facts, struct job_profile *profile)
{
    const struct run_usage *usage = facts->usage;
    const struct cpu_and_io *cpu = usage && usage->accounted.total_ns > facts->reaped.total_ns
                                       ? &usage->accounted
                                       : &facts->reaped;

    cpu_and_io_fill_times(cpu, usage && !usage->cpu_is_incomplete && !usage->cpu_is_rounded,
                          profile);
}

static void fill_io(const struct run_facts *facts, struct job_profile *profile)
{
    const struct run_usage *usage = facts->usage;
    struct cpu_and_io io = facts->reaped;

    if (!facts->io_is_counted)
        return;
    if (usage) {
        io.read_bytes = MAX(io.read_bytes, usage->accounted.read_bytes);
        io.write_bytes = MAX(io.write_bytes, usage->accounted.write_bytes);
    }
    cpu_and_io_fill_io(&io, usage && run_usage_has_io(usage), profile);
}

/* The sums are at least the peak of the largest process; for a single process they are equal to it.
 */
static void fill_memory(const struct run_facts *facts, struct job_profile *profile)
{
    const struct run_usage *usage = facts->usage;
    int64_t peak = usage ? usage->peak_rss_bytes : facts->reaped_peak_bytes;
    bool is_single = facts->saw_every_process && facts->processes == 1;

    profile->exactness.peak_rss_mb = usage && !usage->rss_is_incomplete ? EXACT : LOWER_BOUND;
    if (!int_is_known(peak))
        return;
    int64_t total = usage && !is_single ? MAX(usage->peak_total_bytes, peak) : peak;
    int64_t unique_min = usage && !is_single ? MAX(usage->peak_unique_min_bytes, peak) : peak;
    int64_t unique = usage && !is_single ? MAX(usage->peak_unique_bytes, unique_min) : peak;
    profile->peak_rss_mb = (double)peak / BYTES_PER_MB;
    profile->peak_total_mb = (double)total / BYTES_PER_MB;
    profile->peak_unique_min_mb = (double)unique_min / BYTES_PER_MB;
    profile->peak_unique_mb = (double)unique / BYTES_PER_MB;

    int sums = usage ? SAMPLED : LOWER_BOUND;
    profile->exactness.peak_total_mb = is_single ? profile->exactness.peak_rss_mb : sums;
    profile->exactness.peak_unique_min_mb = profile->exactness.peak_unique_mb =
        profile->exactness.peak_total_mb;
}

static void mark_lower_bounds(struct run_exactness *exactness)
{
    exactness->cpu_seconds = exactness->user_seconds = exactness->system_seconds = LOWER_BOUND;
    if (exactness->read_bytes)
        exactness->read_bytes = exactness->write_bytes = LOWER_BOUND;
    exactness->peak_rss_mb = exactness->peak_total_mb = LOWER_BOUND;
    exactness->peak_unique_min_mb = exactness->peak_unique_mb = LOWER_BOUND;
}

static void mark_peak_lower_bound(struct run_exactness *exactness)
{
    exactness->peak_rss_mb = LOWER_BOUND;
    if (exactness->peak_total_mb == EXACT) { /* of a single process */
        exactness->peak_total_mb = LOWER_BOUND;
        exactness->peak_unique_min_mb = exactness->peak_unique_mb = LOWER_BOUND;
    }
}

static const struct process_metric *find_process(const struct snapshot *snapshot, pid_t pid)
{
    for (size_t i = 0; snapshot && i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == pid)
            return &snapshot->processes.items[i];
    return NULL;
}

/* Lists the members that still run. Those that could not be read make the figures lower bounds. */
static int fill_left_running(const struct run_facts *facts, struct arena *arena,
                             struct run_summary *summary)
{
    struct left_process_list *left = &summary->left_running;
    struct job_profile *profile = &summary->profile;
    const struct member *member = NULL;

    left->items = arena_alloc(arena, (registry_count(facts->registry) + 1) * sizeof(*left->items));
    if (!left->items)
        return -ENOMEM;
    while ((member = registry_next(facts->registry, member))) {
        const struct process_metric *process = find_process(facts->latest, member->pid);
        if (member->has_ended || (process && process->state == 'Z'))
            continue;
        const char *command = process ? arena_strdup(arena, process->command) : NULL;
        if (process && !command)
            return -ENOMEM;
        if (!process)
            mark_lower_bounds(&profile->exactness);
        if (!member->is_covered_from_birth) /* the peak before an exec is known when it is reaped */
            mark_peak_lower_bound(&profile->exactness);
        left->items[left->count++] = (struct left_process){.pid = member->pid, .command = command};
    }
    profile->left_running_count = (int64_t)left->count;
    if (profile->exactness.processes == EXACT) /* both numbers include processes of nested runs */
        profile->exit_count = profile->processes - profile->left_running_count;
    return 0;
}

static int fill_anomalies(const struct run_facts *facts, struct arena *arena,
                          struct run_summary *summary)
{
    struct anomaly_list *list = &summary->anomalies;
    int r = 0;

    list->items = arena_alloc(arena, (facts->anomalies.count + 1) * sizeof(*list->items));
    if (!list->items)
        return -ENOMEM;
    for (size_t i = 0; i < facts->anomalies.count && r == 0; i++)
        r = record_copy(&anomaly_record, &facts->anomalies.items[i], arena,
                        &list->items[list->count++]);
    return r;
}

static void fill_processes(const struct run_facts *facts, struct job_profile *profile)
{
    profile->processes = (int64_t)facts->processes;
    profile->exactness.processes = facts->saw_every_process ? EXACT : LOWER_BOUND;
    bool is_sampled = facts->usage && int_is_known(facts->usage->peak_processes);
    profile->peak_processes =
        is_sampled ? facts->usage->peak_processes : MIN(profile->processes, 1);
    profile->processes = MAX(profile->processes, profile->peak_processes);
    if (profile->exactness.processes == EXACT && profile->processes == 1)
        profile->exactness.peak_processes = EXACT;
    else
        profile->exactness.peak_processes = is_sampled ? SAMPLED : LOWER_BOUND;
    profile->unique_pid_count = profile->processes; /* reused pids are rare */
    profile->failed_exit_count = facts->counted.failed_exit_count;
    profile->kill_count = facts->counted.kill_count;
    profile->oom_count = facts->counted.oom_count;
    profile->signal_count = facts->counted.signal_count;
}

static void fill_profile(const struct run_facts *facts, struct job_profile *profile)
{
    profile->wall_seconds = ns_to_sec(facts->wall_ns);
    profile->num_samples = facts->usage ? (int64_t)facts->usage->samples : 0;
    profile->gap_seconds = facts->gap_seconds;
    profile->max_cpu_pct = facts->max_cpu_pct;
    profile->collector = facts->collector;
    job_profile_set_syscalls(profile, &facts->syscalls);
    fill_processes(facts, profile);
    fill_cpu(facts, profile);
    fill_io(facts, profile);
    fill_memory(facts, profile);
}

int run_summary_make(const struct run_facts *facts, const struct job_run_options *options,
                     struct arena *arena, struct run_summary *ret)
{
    record_init(&run_summary_record, ret);
    ret->run_id = arena_strdup(arena, options->run_id);
    ret->profile.job_id = arena_strdup(arena, options->job_id);
    ret->job_type = arena_strdup(arena, options->job_type);
    if (!ret->run_id || !ret->profile.job_id || !ret->job_type)
        return -ENOMEM;

    ret->sheet_num = options->sheet_num;
    ret->started_at = ns_to_sec(facts->started_real_ns);
    fill_profile(facts, &ret->profile);
    int r = fill_outcome(facts, options, arena, ret);
    if (r == 0)
        r = fill_left_running(facts, arena, ret);
    return r < 0 ? r : fill_anomalies(facts, arena, ret);
}
