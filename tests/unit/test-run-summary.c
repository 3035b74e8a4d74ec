/* The summary of a run: its figures, how exact they are, and why it failed. */
#include "unit.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "run/run-summary.h"

#define MB          ((int64_t)BYTES_PER_MB)
#define COMMAND_PID 100
#define RUN_ID      "0198a000-0000-7000-8000-000000000001"

static char make_word[] = "make", all_word[] = "all";
static char *const argv[] = {make_word, all_word, NULL};
static const struct config config; /* nothing is redacted */
static const struct job_run_options options = {.argv = argv,
                                               .config = &config,
                                               .run_id = RUN_ID,
                                               .job_id = "build",
                                               .job_type = "build",
                                               .sheet_num = INT_UNKNOWN};

static struct run_facts facts;
static struct run_usage usage;
static struct run_summary summary;
static struct registry *registry;
static struct run *run;
static struct snapshot *latest;
static struct arena arena;

static int set_up(void **state _unused_)
{
    const struct run_options run_options = {.run_id = RUN_ID, .job_id = "build", .uid = getuid()};

    assert_int_equal(registry_new(&registry), 0);
    assert_int_equal(registry_add_run(registry, &run_options, &run), 0);
    latest = snapshot_new();
    assert_non_null(latest);
    facts = (struct run_facts){.command_pid = COMMAND_PID,
                               .started_real_ns = 1000 * NS_PER_SEC,
                               .wall_ns = 10 * NS_PER_SEC,
                               .processes = 3,
                               .saw_every_process = true,
                               .max_cpu_pct = REAL_UNKNOWN,
                               .collector = "procfs",
                               .usage = &usage,
                               .registry = registry,
                               .latest = latest,
                               .oom_kills = INT_UNKNOWN,
                               .cpu_limit_sec = INT_UNKNOWN};
    record_init(&job_profile_record, &facts.counted);
    usage = (struct run_usage){
        .accounted = {.total_ns = 4 * NS_PER_SEC,
                      .user_ns = 3 * NS_PER_SEC,
                      .system_ns = NS_PER_SEC},
        .peak_rss_bytes = 100 * MB,
        .peak_total_bytes = 250 * MB,
        .peak_unique_min_bytes = 140 * MB,
        .peak_unique_bytes = 150 * MB,
        .peak_processes = 2,
        .samples = 7,
    };
    return 0;
}

static int tear_down(void **state _unused_)
{
    run_facts_done(&facts);
    registry_free(registry);
    snapshot_free(latest);
    arena_done(&arena);
    arena = (struct arena){0};
    return 0;
}

static void make(void)
{
    assert_int_equal(run_summary_make(&facts, &options, &arena, &summary), 0);
}

static void reap(int64_t user_sec, int64_t system_sec, int64_t peak_mb)
{
    const struct rusage reaped = {
        .ru_utime.tv_sec = user_sec, .ru_stime.tv_sec = system_sec, .ru_maxrss = peak_mb * 1024};

    run_facts_add_reaped(&facts, &reaped);
}

static void assert_cpu(double user_seconds, double system_seconds, int exactness)
{
    assert_near(summary.profile.user_seconds, user_seconds, 1e-6);
    assert_near(summary.profile.system_seconds, system_seconds, 1e-6);
    assert_near(summary.profile.cpu_seconds, user_seconds + system_seconds, 1e-6);
    assert_int_equal(summary.profile.exactness.cpu_seconds, exactness);
    int split = exactness == EXACT ? SAMPLED : exactness; /* the kernel counts it in ticks */
    assert_int_equal(summary.profile.exactness.user_seconds, split);
    assert_int_equal(summary.profile.exactness.system_seconds, split);
}

static void assert_memory(double rss_mb, double total_mb, double unique_min_mb, double unique_mb)
{
    assert_near(summary.profile.peak_rss_mb, rss_mb, 1e-6);
    assert_near(summary.profile.peak_total_mb, total_mb, 1e-6);
    assert_near(summary.profile.peak_unique_min_mb, unique_min_mb, 1e-6);
    assert_near(summary.profile.peak_unique_mb, unique_mb, 1e-6);
}

/* ---- figures ---- */

static void test_figures_come_from_the_ledger(void **state _unused_)
{
    reap(1, 1, 90);
    make();
    assert_string_equal(summary.run_id, RUN_ID);
    assert_string_equal(summary.profile.job_id, "build");
    assert_int_equal(summary.outcome, OUTCOME_SUCCESS);
    assert_int_equal(summary.exit_code, 0);
    assert_null(summary.cause);
    assert_near(summary.started_at, 1000, 1e-6);
    assert_near(summary.profile.wall_seconds, 10, 1e-6);
    assert_int_equal(summary.profile.processes, 3);
    assert_int_equal(summary.profile.peak_processes, 2);
    assert_int_equal(summary.profile.exit_count, 3);
    assert_int_equal(summary.profile.kill_count, INT_UNKNOWN);
    assert_int_equal(summary.profile.num_samples, 7);
    assert_cpu(3, 1, EXACT);
    assert_memory(100, 250, 140, 150);
    assert_int_equal(summary.profile.exactness.processes, EXACT);
    assert_int_equal(summary.profile.exactness.peak_rss_mb, EXACT);
    assert_int_equal(summary.profile.exactness.peak_total_mb, SAMPLED);
    assert_int_equal(summary.profile.exactness.peak_unique_mb, SAMPLED);
    assert_int_equal(summary.profile.exactness.peak_unique_min_mb, SAMPLED);
    assert_int_equal(summary.profile.exactness.peak_processes, SAMPLED);
}

static void test_reaped_time_is_a_lower_bound(void **state _unused_)
{
    usage.cpu_is_incomplete = true;
    reap(3, 1, 10);
    reap(2, 1, 20);
    make();
    assert_cpu(5, 2, LOWER_BOUND);
    assert_memory(100, 250, 140, 150);
}

static void test_without_samples_wait4_remains(void **state _unused_)
{
    facts.usage = NULL;
    facts.saw_every_process = false;
    reap(2, 1, 64);
    reap(1, 0, 32);
    make();
    assert_cpu(3, 1, LOWER_BOUND);
    assert_memory(64, 64, 64, 64);
    assert_int_equal(summary.profile.num_samples, 0);
    assert_int_equal(summary.profile.peak_processes, 1);
    assert_int_equal(summary.profile.exactness.peak_processes, LOWER_BOUND);
    assert_int_equal(summary.profile.exit_count, INT_UNKNOWN);
    assert_int_equal(summary.profile.exactness.processes, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_rss_mb, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_total_mb, LOWER_BOUND);
}

static void test_events_are_counted(void **state _unused_)
{
    static const struct process_event events[] = {
        {.event_type = EVENT_SPAWN},
        {.event_type = EVENT_SIGNAL},
        {.event_type = EVENT_OOM},
        {.event_type = EVENT_KILL, .exit_code = INT_UNKNOWN},
        {.event_type = EVENT_EXIT, .exit_code = 2},
        {.event_type = EVENT_EXIT, .exit_code = 0},
        {.event_type = EVENT_EXIT, .exit_code = 3, .is_step = TRUTH_YES},
    };

    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        job_profile_add_event(&facts.counted, &events[i]);
    make();
    assert_int_equal(facts.counted.processes, 1);
    assert_int_equal(facts.counted.exit_count, 3);
    assert_int_equal(summary.profile.failed_exit_count, 1);
    assert_int_equal(summary.profile.kill_count, 1);
    assert_int_equal(summary.profile.oom_count, 1);
    assert_int_equal(summary.profile.signal_count, 1);
}

static void test_processes_that_no_event_reported(void **state _unused_)
{
    facts.saw_every_process = false;
    usage.peak_processes = 5;
    make();
    assert_int_equal(summary.profile.processes, 5);
    assert_int_equal(summary.profile.exactness.processes, LOWER_BOUND);
}

static void test_rounded_or_missing_figures_are_lower_bounds(void **state _unused_)
{
    usage.cpu_is_rounded = true;
    usage.rss_is_incomplete = true;
    make();
    assert_cpu(3, 1, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_rss_mb, LOWER_BOUND);
}

/* Ticks are rounded down, the total is not: the remainder of the total is no lower bound. */
static void test_split_of_a_lower_bound(void **state _unused_)
{
    usage.accounted.total_ns += NS_PER_SEC;
    make();
    assert_near(summary.profile.system_seconds, 2, 1e-6);
    usage.cpu_is_incomplete = true;
    make();
    assert_near(summary.profile.cpu_seconds, 5, 1e-6);
    assert_near(summary.profile.user_seconds, 3, 1e-6);
    assert_near(summary.profile.system_seconds, 1, 1e-6);
    assert_int_equal(summary.profile.exactness.system_seconds, LOWER_BOUND);
}

static void test_sums_of_a_single_process_are_its_own(void **state _unused_)
{
    facts.processes = 1;
    usage.peak_total_bytes = 80 * MB; /* sampled before its peak */
    usage.peak_processes = 1;
    make();
    assert_memory(100, 100, 100, 100);
    assert_int_equal(summary.profile.peak_processes, 1);
    assert_int_equal(summary.profile.exactness.peak_processes, EXACT);
    assert_int_equal(summary.profile.exactness.peak_total_mb, EXACT);
    assert_int_equal(summary.profile.exactness.peak_unique_mb, EXACT);
}

static void test_sums_are_at_least_the_largest_process(void **state _unused_)
{
    usage.peak_total_bytes = 80 * MB;
    usage.peak_unique_min_bytes = 50 * MB;
    usage.peak_unique_bytes = 60 * MB;
    make();
    assert_memory(100, 100, 100, 100);
    assert_int_equal(summary.profile.exactness.peak_total_mb, SAMPLED);
}

/* ---- processes that are left ---- */

static void test_left_processes_are_listed(void **state _unused_)
{
    static struct process_metric processes[2];

    for (size_t i = 0; i < ARRAY_SIZE(processes); i++)
        record_init(&process_metric_record, &processes[i]);
    processes[0].pid = 101;
    processes[0].command = "sleep 60";
    processes[0].state = 'S';
    processes[1].pid = 102;
    processes[1].command = "[gone]";
    processes[1].state = 'Z';
    latest->processes.items = processes;
    latest->processes.count = 2;
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, 101), 0);
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, 102), 0);
    make();
    assert_int_equal(summary.left_running.count, 1);
    assert_int_equal(summary.left_running.items[0].pid, 101);
    assert_string_equal(summary.left_running.items[0].command, "sleep 60");
    assert_int_equal(summary.profile.exactness.cpu_seconds, EXACT);

    /* One that could not be read has used more than is known. */
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, 103), 0);
    make();
    assert_int_equal(summary.left_running.count, 2);
    assert_int_equal(summary.profile.exactness.cpu_seconds, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_total_mb, LOWER_BOUND);
    latest->processes.count = 0;
    latest->processes.items = NULL;
}

/* It may have had more memory before it executed its program. */
static void test_peak_of_a_single_process_that_is_left(void **state _unused_)
{
    struct process_metric items[] = {{.pid = 101, .state = 'S', .command = "sleep 60"}};

    latest->processes.items = items;
    latest->processes.count = 1;
    facts.processes = 1;
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, 101), 0);
    make();
    assert_int_equal(summary.profile.exactness.peak_rss_mb, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_total_mb, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_unique_min_mb, LOWER_BOUND);
    assert_int_equal(summary.profile.exactness.peak_unique_mb, LOWER_BOUND);
    latest->processes.count = 0;
    latest->processes.items = NULL;
}

/* ---- outcome and cause ---- */

static void test_an_exit_status_is_a_failure(void **state _unused_)
{
    facts.wait_status = 3 << 8;
    make();
    assert_int_equal(summary.outcome, OUTCOME_FAILURE);
    assert_int_equal(summary.exit_code, 3);
    assert_string_equal(summary.cause, "exit status 3");
    assert_int_equal(summary.chain.count, 1);
    assert_int_equal(summary.chain.items[0].pid, COMMAND_PID);
    assert_string_equal(summary.chain.items[0].command, "make all");
}

static void test_the_sender_of_a_passed_on_signal_is_named(void **state _unused_)
{
    facts.wait_status = SIGTERM;
    facts.passed_on[SIGTERM] =
        (struct sent_signal){.number = SIGTERM, .sender_pid = 812, .sender_command = "timeout 5"};
    make();
    assert_int_equal(summary.outcome, OUTCOME_FAILURE);
    assert_int_equal(summary.signal_num, SIGTERM);
    assert_has(summary.cause, "SIGTERM");
    assert_has(summary.cause, "812");
    assert_has(summary.cause, "timeout 5");
}

static void test_a_signal_from_the_terminal(void **state _unused_)
{
    facts.wait_status = SIGINT;
    facts.from_terminal = SIGINT;
    make();
    assert_has(summary.cause, "from the terminal");
}

static void test_a_chain_is_completed_by_what_the_parent_knows(void **state _unused_)
{
    static struct process_event chain[2];

    for (size_t i = 0; i < ARRAY_SIZE(chain); i++) {
        record_init(&process_event_record, &chain[i]);
        chain[i].event_type = EVENT_EXIT;
    }
    chain[0].pid = 104;
    chain[0].command = "cc a.c";
    chain[0].exit_code = 1;
    chain[1].pid = COMMAND_PID;
    chain[1].exit_code = 2;
    facts.chain = (struct process_event_list){.items = chain, .count = 2};
    facts.wait_status = 2 << 8;
    make();
    assert_int_equal(summary.chain.count, 2);
    assert_string_equal(summary.chain.items[1].command, "make all");
    assert_has(summary.cause, "cc");
}

static void test_a_kill_may_be_at_a_limit(void **state _unused_)
{
    facts.wait_status = SIGKILL;
    facts.oom_kills = 1;
    facts.cpu_limit_sec = 4; /* as much as the run has used */
    make();
    assert_string_equal(summary.cause, "killed by SIGKILL, perhaps its CPU limit of 4 s");
    facts.cpu_limit_sec = 7;
    make();
    assert_has(summary.cause, "perhaps out of memory");
    facts.usage = NULL;
    reap(7, 0, 1);
    make();
    assert_has(summary.cause, "CPU limit");
    facts.wait_status = SIGTERM;
    make();
    assert_null(strstr(summary.cause, "limit"));
}

static void test_a_kill_may_be_for_memory(void **state _unused_)
{
    facts.wait_status = SIGKILL;
    facts.oom_kills = 2;
    make();
    assert_string_equal(summary.cause, "killed by SIGKILL, perhaps out of memory: the kernel made 2"
                                       " OOM kills during the run");
    facts.oom_kills = 1;
    make();
    assert_has(summary.cause, "the kernel made 1 OOM kill during the run");
    facts.oom_kills = 0;
    make();
    assert_null(strstr(summary.cause, "memory"));
    facts.oom_kills = 2;
    facts.wait_status = SIGTERM;
    make();
    assert_null(strstr(summary.cause, "memory"));
}

/* ---- anomalies ---- */

static void test_an_anomaly_is_listed_once(void **state _unused_)
{
    struct anomaly anomaly;

    record_init(&anomaly_record, &anomaly);
    anomaly.timestamp = 1001;
    anomaly.pid = 101;
    anomaly.anomaly_type = "zombie";
    anomaly.severity = SEVERITY_LOW;
    run_facts_add_anomaly(&facts, &anomaly);
    anomaly.severity = SEVERITY_HIGH; /* the same episode, later */
    run_facts_add_anomaly(&facts, &anomaly);
    for (int i = 0; i < 2 * RUN_ANOMALIES_MAX; i++) {
        anomaly.timestamp = 2000 + i;
        run_facts_add_anomaly(&facts, &anomaly);
    }
    make();
    assert_int_equal(summary.anomalies.count, RUN_ANOMALIES_MAX);
    assert_int_equal(summary.anomalies.items[0].severity, SEVERITY_HIGH);
    assert_near(summary.anomalies.items[0].timestamp, 1001, 0);
    assert_near(summary.anomalies.items[1].timestamp, 2000, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_figures_come_from_the_ledger),
        TEST(test_reaped_time_is_a_lower_bound),
        TEST(test_without_samples_wait4_remains),
        TEST(test_events_are_counted),
        TEST(test_processes_that_no_event_reported),
        TEST(test_rounded_or_missing_figures_are_lower_bounds),
        TEST(test_split_of_a_lower_bound),
        TEST(test_sums_of_a_single_process_are_its_own),
        TEST(test_sums_are_at_least_the_largest_process),
        TEST(test_left_processes_are_listed),
        TEST(test_peak_of_a_single_process_that_is_left),
        TEST(test_an_exit_status_is_a_failure),
        TEST(test_the_sender_of_a_passed_on_signal_is_named),
        TEST(test_a_signal_from_the_terminal),
        TEST(test_a_chain_is_completed_by_what_the_parent_knows),
        TEST(test_a_kill_may_be_at_a_limit),
        TEST(test_a_kill_may_be_for_memory),
        TEST(test_an_anomaly_is_listed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
