/* The detector against the slow reference on random histories: values near the thresholds, reused
 * pids, snapshots without some processes, unknown values, irregular intervals.
 *
 * SONDE_TEST_HISTORIES is how many histories are tested. Each depends only on its index, so that
 * SONDE_TEST_FIRST_HISTORY repeats one that fails. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "detect-reference.h"
#include "detect-world.h"
#include "detect/anomaly-rules.h"

#define HISTORIES 12000
#define SLOTS     6

/* ---- random numbers ---- */

static uint64_t chance;

static void chance_start(uint64_t seed)
{
    chance = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

/* xorshift64*: Vigna, ACM Transactions on Mathematical Software 42 (2016) 30. */
static unsigned draw(unsigned below)
{
    chance ^= chance >> 12;
    chance ^= chance << 25;
    chance ^= chance >> 27;
    return (unsigned)((chance * UINT64_C(0x2545F4914F6CDD1D)) >> 33) % below;
}

static bool happens(unsigned percent)
{
    return draw(100) < percent;
}

#define DRAW_FROM(array) ((array)[draw(ARRAY_SIZE(array))])

/* ---- a history ---- */

struct history {
    bool leaks; /* its processes grow slowly */
    bool is_calm;
    double interval;
    unsigned slots;
    struct process_metric processes[SLOTS];
    unsigned missing[SLOTS]; /* snapshots that a process is still absent from */
    double available_mb;
};

static const char *const runs[] = {NULL, NULL, "run-a", "run-a", "run-b"};

static void make_process(struct process_metric *process, int64_t pid, uint64_t start)
{
    static const double ages[] = {0, 0, 1, 29.999, 30, 3, 1000, REAL_UNKNOWN};
    static const int64_t parents[] = {1, WORLD_DAEMON_PID, 100, 101, 102, INT_UNKNOWN};

    record_init(&process_metric_record, process);
    process->pid = pid;
    process->start_ticks = start;
    process->ppid = DRAW_FROM(parents);
    process->command = "some command";
    process->state = 'S';
    process->rss_mb = 50 * (1 + draw(8));
    process->cpu_percent = 0;
    process->open_fds = 10;
    process->age_seconds = DRAW_FROM(ages);
    process->uid = 1000;
    process->run_id = process->job_id = DRAW_FROM(runs);
}

static double other_rss(const struct history *history, double mb)
{
    static const double levels[] = {0, 50, 100, 199.5, 200, 300, 600};

    if (!real_is_known(mb))
        return 200;
    if (history->leaks)
        return mb + (double)draw(20) - (happens(20) ? 15 : 0);
    switch (draw(12)) {
    case 0: return mb * 1.5;
    case 1: return mb * 3;
    case 2: return mb * 1.08;
    case 3: return mb + 100;
    case 4: return DRAW_FROM(levels);
    case 5: return mb / 2;
    case 6: return REAL_UNKNOWN;
    default: return mb;
    }
}

static void change_process(const struct history *history, struct process_metric *process)
{
    static const double loads[] = {0, 49.9, 50, 89.99, 90, 100, 135, 250, REAL_UNKNOWN};
    static const char states[] = {'R', 'S', 'D', 'D', 'Z', 'Z', '\0'};
    static const int64_t fds[] = {10,  818,  819,  820,  972,  973,         974,
                                  999, 1000, 1500, 3276, 3277, INT_UNKNOWN, 0};
    static const int64_t limits[] = {1024, 4096, 4097, INT_UNKNOWN, INT64_MAX, 0};
    unsigned often = history->is_calm ? 3 : 15;

    process->rss_mb = other_rss(history, process->rss_mb);
    if (happens(often))
        process->cpu_percent = DRAW_FROM(loads);
    if (happens(often))
        process->state = DRAW_FROM(states);
    if (happens(often))
        process->open_fds = DRAW_FROM(fds);
    if (happens(3))
        process->fd_limit = DRAW_FROM(limits);
    if (happens(2))
        process->run_id = process->job_id = DRAW_FROM(runs);
    if (happens(2))
        process->ppid = 100 + draw(SLOTS);
}

static void start_history(struct history *history)
{
    static const double intervals[] = {0.1, 0.5, 1, 1, 2, 5, 10};

    *history = (struct history){.leaks = happens(40),
                                .is_calm = happens(50),
                                .interval = DRAW_FROM(intervals),
                                .slots = 1 + draw(SLOTS),
                                .available_mb = 5000};
    for (unsigned i = 0; i < history->slots; i++)
        make_process(&history->processes[i], 100 + i, 1000);
}

static double draw_interval(const struct history *history)
{
    static const double odd[] = {0.001, 0.3, 3, 10, 31, 61, 600};
    return happens(90) ? history->interval : DRAW_FROM(odd);
}

static void add_events(const struct history *history, struct reference_snapshot *snapshot)
{
    bool has_oom = false;

    while (snapshot->event_count < REFERENCE_EVENTS_MAX && happens(6)) {
        struct process_event *event = &snapshot->events[snapshot->event_count++];

        record_init(&process_event_record, event);
        event->uid = INT_UNKNOWN;
        event->pid = 100 + draw(history->slots);
        event->event_type = happens(50) ? EVENT_EXEC : happens(50) ? EVENT_OOM : EVENT_EXIT;
        if (event->event_type != EVENT_OOM)
            continue;
        if (has_oom)
            event->pid = INT_UNKNOWN; /* one process is not killed in two runs at once */
        has_oom = true;
        event->run_id = DRAW_FROM(runs);
        event->peak_rss_mb = happens(30) ? REAL_UNKNOWN : 100 * draw(20);
    }
}

static void take_snapshot(struct history *history, uint64_t ns, struct reference_snapshot *snapshot)
{
    static const double available[] = {5000, 5000, 1000, 999, 665, 1, 0, REAL_UNKNOWN};

    snapshot->ns = ns;
    snapshot->timestamp = 1.7e9 + (double)ns / 1e9;
    snapshot->daemon_pid = WORLD_DAEMON_PID;
    snapshot->total_mb = 10000;
    if (happens(10))
        history->available_mb = DRAW_FROM(available);
    snapshot->available_mb = history->available_mb;
    if (happens(3))
        snapshot->ended_run = DRAW_FROM(runs);
    for (unsigned i = 0; i < history->slots; i++) {
        struct process_metric *process = &history->processes[i];

        if (happens(history->is_calm ? 1 : 4))
            make_process(process, process->pid, process->start_ticks + draw(2));
        change_process(history, process);
        if (!history->missing[i] && happens(4))
            history->missing[i] = 1 + draw(3);
        if (history->missing[i])
            history->missing[i]--;
        else
            snapshot->processes[snapshot->process_count++] = *process;
    }
    add_events(history, snapshot);
}

/* ---- the comparison ---- */

struct trial {
    unsigned long number;
    struct anomaly_config config;
    struct reference *reference;
    struct detector *detector;
    struct anomaly_rules rules; /* the first stage by itself */
    struct snapshot snapshot;
    struct arena arena;
};

static size_t seen[ANOMALY_KINDS][3]; /* by phase: to check that all occur */

static bool is_near(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(b);
}

static bool is_same_finding(const struct finding *fast, const struct reference_finding *slow)
{
    return fast->kind == slow->kind && fast->subject.pid == slow->pid &&
           fast->subject.start_ticks == slow->start_ticks &&
           is_same_text(fast->subject.run_id, slow->run_id) &&
           fast->figures.severity == slow->severity && is_near(fast->figures.value, slow->value) &&
           is_near(fast->figures.threshold, slow->threshold);
}

/* Each is reported once, so equal counts and membership mean equal lists. */
static void compare_findings(const struct trial *trial)
{
    const struct reference *slow = trial->reference;
    const struct finding_list *fast = &trial->rules.findings;
    size_t now = slow->count - 1, matched = 0;

    for (size_t i = 0; i < slow->finding_counts[now]; i++)
        for (size_t k = 0; k < fast->count; k++)
            if (is_same_finding(&fast->items[k], &slow->findings[now][i])) {
                matched++;
                break;
            }
    if (fast->count != slow->finding_counts[now] || matched != fast->count)
        fail_msg("history %lu, snapshot %zu: %zu findings, %zu by the reference, %zu the same",
                 trial->number, now, fast->count, slow->finding_counts[now], matched);
}

static enum reference_phase phase_of(const struct anomaly *anomaly)
{
    if (real_is_known(anomaly->cleared_at))
        return PHASE_CLEARING;
    return anomaly->is_opening ? PHASE_OPENING : PHASE_CHANGE;
}

static bool is_same_report(const struct anomaly *fast, const struct reference_report *slow)
{
    return phase_of(fast) == slow->phase &&
           strcmp(fast->anomaly_type, anomaly_kind_name(slow->kind)) == 0 &&
           fast->timestamp == slow->timestamp && fast->pid == slow->pid &&
           is_same_text(fast->run_id, slow->run_id) && fast->severity == slow->severity &&
           is_near(fast->metric_value, slow->value) && is_near(fast->threshold, slow->threshold) &&
           is_near(fast->cleared_at, slow->cleared_at);
}

static void compare_reports(const struct trial *trial, const struct anomaly_list *fast)
{
    const struct reference *slow = trial->reference;
    size_t matched = 0;

    for (size_t i = 0; i < slow->report_count; i++) {
        seen[slow->reports[i].kind][slow->reports[i].phase]++;
        for (size_t k = 0; k < fast->count; k++)
            if (is_same_report(&fast->items[k], &slow->reports[i])) {
                matched++;
                break;
            }
    }
    if (fast->count != slow->report_count || matched != fast->count)
        fail_msg("history %lu, snapshot %zu: %zu reported, %zu by the reference, %zu the same",
                 trial->number, slow->count - 1, fast->count, slow->report_count, matched);
    for (size_t i = 1; i < fast->count; i++)
        assert_true(phase_of(&fast->items[i - 1]) <= phase_of(&fast->items[i]));
}

static void compare_state(const struct trial *trial, const struct reference_snapshot *now)
{
    if (detector_open_count(trial->detector) != reference_open_count(trial->reference))
        fail_msg("history %lu: %zu are open, %zu by the reference", trial->number,
                 detector_open_count(trial->detector), reference_open_count(trial->reference));
    for (size_t i = 0; i < now->process_count; i++) {
        const struct process_metric *process = &now->processes[i];
        if (detector_is_in_episode(trial->detector, (pid_t)process->pid, process->start_ticks) !=
            reference_is_in_episode(trial->reference, process->pid, process->start_ticks))
            fail_msg("history %lu, snapshot %zu: pid %lld", trial->number,
                     trial->reference->count - 1, (long long)process->pid);
    }
}

static void check_both(struct trial *trial, struct reference_snapshot *now)
{
    struct process_event_list events = {.items = now->events, .count = now->event_count};
    const struct detect_input input = {
        .snapshot = &trial->snapshot, .mono_ns = now->ns, .events = &events};
    struct anomaly_list reported;

    trial->snapshot.timestamp = now->timestamp;
    trial->snapshot.daemon_pid = now->daemon_pid;
    trial->snapshot.system_memory_total_mb = now->total_mb;
    trial->snapshot.system_memory_available_mb = now->available_mb;
    trial->snapshot.processes =
        (struct process_list){.items = now->processes, .count = now->process_count};
    if (now->ended_run)
        detector_end_run(trial->detector, now->ended_run);

    arena_reset(&trial->arena);
    assert_int_equal(anomaly_rules_apply(&trial->rules, &input), 0);
    assert_int_equal(detector_check(trial->detector, &input, &trial->arena, &reported), 0);
    reference_check(trial->reference);
    compare_findings(trial);
    compare_reports(trial, &reported);
    compare_state(trial, now);
}

static void draw_constants(const struct anomaly_config *config, struct reference *reference)
{
    reference->config = *config;
    reference->constants = detect_constants_default;
    if (happens(50)) {
        reference->config.memory_spike_window_seconds = 3;
        reference->config.runaway_duration_seconds = 5;
        reference->constants.stuck_ns = UINT64_C(6000000000);
    }
    if (happens(30))
        reference->config.clear_seconds = happens(50) ? 2 : 0;
    if (happens(30))
        reference->constants.spike_points = 3;
    if (happens(30)) {
        reference->constants.zombie_snapshots = 3;
        reference->constants.zombie_ns = UINT64_C(1000000000);
    }
    if (happens(70)) {
        reference->constants.leak_points_max = 16;
        reference->constants.leak_points_min = 8;
        reference->constants.leak_span_ns = UINT64_C(8000000000);
        reference->constants.leak_period_ns = UINT64_C(400000000);
    }
}

static void try_history(struct trial *trial)
{
    struct reference *reference = trial->reference;
    struct history history;

    chance_start(trial->number);
    draw_constants(&trial->config, reference);
    start_history(&history);
    reference_reset(reference);
    anomaly_rules_init(&trial->rules, &reference->config, &reference->constants);
    assert_int_equal(detector_new_with(&reference->config, &reference->constants, &trial->detector),
                     0);

    unsigned length = 5 + draw(history.leaks && happens(10) ? 100 : 36);
    uint64_t ns = UINT64_C(20000000000);
    for (unsigned i = 0; i < length; i++) {
        struct reference_snapshot *snapshot = reference_add(reference);
        ns += (uint64_t)(draw_interval(&history) * 1e9);
        take_snapshot(&history, ns, snapshot);
        check_both(trial, snapshot);
    }
    detector_free(trial->detector);
    anomaly_rules_done(&trial->rules);
}

static unsigned long number_from(const char *variable, unsigned long fallback)
{
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : fallback;
}

static void test_random_histories(void **state _unused_)
{
    static struct reference reference;
    static struct trial trial = {.reference = &reference};
    unsigned long first = number_from("SONDE_TEST_FIRST_HISTORY", 1);
    unsigned long count = number_from("SONDE_TEST_HISTORIES", HISTORIES);

    trial.config = world_config();
    record_init(&snapshot_record, &trial.snapshot);
    for (unsigned long i = 0; i < count; i++) {
        trial.number = first + i;
        try_history(&trial);
    }
    arena_done(&trial.arena);
    for (int kind = 0; kind < ANOMALY_KINDS; kind++) {
        print_message("# %s: %zu openings, %zu changes, %zu clearings\n",
                      anomaly_kind_name((enum anomaly_kind)kind), seen[kind][PHASE_OPENING],
                      seen[kind][PHASE_CHANGE], seen[kind][PHASE_CLEARING]);
        for (int phase = 0; phase < 3 && count >= HISTORIES; phase++)
            assert_true(seen[kind][phase] > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_histories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
