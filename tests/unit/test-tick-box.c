#include "model/tick-box.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "engine/command-cache.h"
#include "model/job.h"
#include "model/record-copy.h"
#include "unit.h"
#include "writer/tick-loss.h"

static const struct event_owner first = {.run_id = "run-1", .job_id = "job-1", .sheet_num = 4};
static const struct event_owner second = {
    .run_id = "run-2", .job_id = "job-2", .sheet_num = INT_UNKNOWN};

#define EXITED(status) ((status) << 8)
#define CORE_DUMPED    0x80

/* ---- events ---- */

static void test_events_belong_to_their_runs(void **state _unused_)
{
    char run_id[] = "run-1", job_id[] = "job-1";
    const struct event_owner owner = {.run_id = run_id, .job_id = job_id, .sheet_num = 4};
    struct tick_box *box = tick_box_new();

    assert_non_null(tick_box_add_spawn(box, owner, 10, 9, 1.5));
    assert_non_null(tick_box_add_spawn(box, second, 11, 10, 2));
    assert_non_null(tick_box_add_end(box, owner, 10, EXITED(3), 3));
    run_id[0] = job_id[0] = 'x'; /* the box has its own copies */

    const struct process_event *events = box->tick.events.items;
    assert_int_equal(box->tick.events.count, 3);
    assert_int_equal(events[0].event_type, EVENT_SPAWN);
    assert_int_equal(events[0].pid, 10);
    assert_int_equal(events[0].ppid, 9);
    assert_true(events[0].timestamp == 1.5);
    assert_string_equal(events[0].run_id, "run-1");
    assert_string_equal(events[0].job_id, "job-1");
    assert_int_equal(events[0].sheet_num, 4);
    assert_null(events[0].command);
    assert_false(int_is_known(events[0].exit_code));
    assert_false(real_is_known(events[0].cpu_seconds));
    assert_string_equal(events[1].run_id, "run-2");
    assert_false(int_is_known(events[1].sheet_num));
    assert_int_equal(events[2].event_type, EVENT_EXIT);
    assert_int_equal(events[2].exit_code, 3);
    assert_false(int_is_known(events[2].signal_num));
    assert_string_equal(events[2].run_id, "run-1");
    tick_box_free(box);
}

static void test_kill_replaces_its_signal(void **state _unused_)
{
    struct tick_box *box = tick_box_new();
    char sender[] = "kill -TERM 10";
    struct process_event sent;

    record_init(&process_event_record, &sent);
    sent.signal_num = SIGTERM;
    sent.sender_pid = 77;
    sent.sender_command = sender;
    assert_non_null(tick_box_add_signal(box, first, 10, &sent, 1));
    sent.signal_num = SIGUSR1;
    assert_non_null(tick_box_add_signal(box, first, 10, &sent, 2));
    sent.signal_num = SIGTERM;
    assert_non_null(tick_box_add_signal(box, first, 11, &sent, 3));
    sender[0] = 'x';
    assert_non_null(tick_box_add_end(box, first, 10, SIGTERM, 4));

    const struct process_event *events = box->tick.events.items;
    assert_int_equal(box->tick.events.count, 3);
    assert_int_equal(events[0].event_type, EVENT_SIGNAL);
    assert_int_equal(events[0].signal_num, SIGUSR1);
    assert_int_equal(events[1].event_type, EVENT_SIGNAL);
    assert_int_equal(events[1].pid, 11);
    assert_int_equal(events[2].event_type, EVENT_KILL);
    assert_int_equal(events[2].pid, 10);
    assert_int_equal(events[2].signal_num, SIGTERM);
    assert_int_equal(events[2].sender_pid, 77);
    assert_string_equal(events[2].sender_command, "kill -TERM 10");
    assert_true(events[2].timestamp == 4);
    assert_false(int_is_known(events[2].exit_code));
    tick_box_free(box);
}

static void test_signal_that_has_killed_already(void **state _unused_)
{
    struct tick_box *box = tick_box_new();
    struct process_event sent;

    record_init(&process_event_record, &sent);
    sent.signal_num = SIGINT;
    sent.details = "from the terminal";
    tick_box_add_end(box, first, 10, SIGINT, 1);
    tick_box_add_signal(box, first, 10, &sent, 2);
    sent.signal_num = SIGTERM; /* the sender is gone */
    sent.details = "too late";
    tick_box_add_signal(box, first, 10, &sent, 3);
    assert_int_equal(box->tick.events.count, 1);
    assert_int_equal(box->tick.events.items[0].event_type, EVENT_KILL);
    assert_string_equal(box->tick.events.items[0].details, "from the terminal");
    tick_box_free(box);
}

/* The signal was received after the exit that it caused. */
static void test_signal_before_an_exit(void **state _unused_)
{
    struct tick_box *box = tick_box_new();
    struct process_event sent;

    record_init(&process_event_record, &sent);
    sent.signal_num = SIGUSR1;
    tick_box_add_end(box, first, 10, 0, 1);
    tick_box_add_signal(box, first, 10, &sent, 2);
    assert_int_equal(box->tick.events.count, 2);
    assert_int_equal(box->tick.events.items[1].event_type, EVENT_SIGNAL);
    tick_box_free(box);
}

static void test_kill_without_a_sender(void **state _unused_)
{
    struct tick_box *box = tick_box_new();

    tick_box_add_end(box, first, 10, SIGSEGV | CORE_DUMPED, 4);
    assert_int_equal(box->tick.events.items[0].event_type, EVENT_KILL);
    assert_int_equal(box->tick.events.items[0].signal_num, SIGSEGV);
    assert_string_equal(box->tick.events.items[0].details, "core dumped");
    assert_false(int_is_known(box->tick.events.items[0].sender_pid));
    tick_box_free(box);
}

static void test_end_is_found(void **state _unused_)
{
    struct tick_box *box = tick_box_new();

    assert_null(tick_box_find_end(box, 10));
    tick_box_add_end(box, first, 10, EXITED(1), 1);
    tick_box_add_end(box, first, 11, SIGKILL, 2);
    assert_int_equal(tick_box_find_end(box, 10)->exit_code, 1);
    assert_int_equal(tick_box_find_end(box, 11)->signal_num, SIGKILL);
    tick_box_add_spawn(box, first, 10, 1, 3); /* another process of that number */
    assert_null(tick_box_find_end(box, 10));
    tick_box_free(box);
}

static void test_box_gets_full(void **state _unused_)
{
    struct tick_box *box = tick_box_new();

    for (int i = 0; i < TICK_EVENTS_MAX; i++) {
        assert_false(tick_box_is_full(box));
        assert_non_null(tick_box_add_spawn(box, first, i + 1, 1, 1));
    }
    assert_true(tick_box_is_full(box));
    assert_null(tick_box_add_spawn(box, first, 1, 1, 1));
    assert_int_equal(box->lost_events, 1);
    tick_box_free(box);
}

/* ---- gaps ---- */

static void test_loss_becomes_gaps(void **state _unused_)
{
    struct tick_box *lost = tick_box_new(), *next = tick_box_new();
    struct tick_loss loss = {0};
    char reason[] = "the disk was full";

    struct snapshot *snapshot = snapshot_new();
    lost->tick.snapshot = snapshot;
    tick_box_add_spawn(lost, first, 1, 1, 1);
    assert_true(tick_loss_is_empty(&loss));
    for (int i = 0; i < 12; i++) {
        snapshot->timestamp = 100 + 5 * i;
        tick_loss_add(&loss, lost);
    }
    assert_true(tick_loss_seconds(&loss, 5) == 60);
    tick_loss_move(&loss, 5, reason, next);
    reason[0] = 'x';
    assert_true(tick_loss_is_empty(&loss));
    assert_int_equal(next->tick.gaps.count, 2);
    assert_int_equal(next->tick.gaps.items[0].kind, GAP_NOT_STORED);
    assert_int_equal(next->tick.gaps.items[0].lost, 12);
    assert_true(next->tick.gaps.items[0].seconds == 60);
    assert_true(next->tick.gaps.items[0].timestamp == 155);
    assert_string_equal(next->tick.gaps.items[0].reason, "the disk was full");
    assert_int_equal(next->tick.gaps.items[1].kind, GAP_EVENTS);
    assert_int_equal(next->tick.gaps.items[1].lost, 12);
    tick_box_free(lost);
    tick_box_free(next);
}

/* A daemon stores the samples: `sonde run` itself stores only events and how many of them are
 * missing. */
static void test_only_lifecycle_events_are_kept(void **state _unused_)
{
    const struct gap missed = {.kind = GAP_MISSED_TICKS, .timestamp = 90, .seconds = 3};
    const struct gap overflow = {.kind = GAP_EVENTS, .timestamp = 95, .lost = INT_UNKNOWN};
    struct tick_box *box = tick_box_new();
    struct anomaly anomaly;
    struct tick_loss loss = {0};

    record_init(&anomaly_record, &anomaly);
    struct snapshot *snapshot = snapshot_new();
    snapshot->timestamp = 100;
    box->tick.snapshot = snapshot;
    box->tick.anomalies = (struct anomaly_list){&anomaly, 1};
    assert_int_equal(tick_box_add_gap(box, &missed), 0);
    assert_int_equal(tick_box_add_gap(box, &overflow), 0);
    tick_box_keep_lifecycle(box, "run-1");
    assert_string_equal(box->tick.beside_run, "run-1");
    assert_int_equal(box->tick.gaps.count, 1);
    assert_int_equal(box->tick.gaps.items[0].kind, GAP_EVENTS);
    assert_int_equal(box->tick.anomalies.count, 0);
    assert_null(tick_stored_snapshot(&box->tick));

    tick_loss_add(&loss, box); /* without events, nothing is lost */
    assert_false(loss.has_time);
    tick_box_add_spawn(box, first, 1, 1, 1);
    tick_loss_add(&loss, box);
    assert_int_equal(loss.snapshots, 0);
    assert_int_equal(loss.events, 1);
    tick_box_free(box);
}

/* ---- names ---- */

static struct snapshot *make_snapshot(size_t count, const int64_t *pids, const char *const *names)
{
    struct snapshot *snapshot = snapshot_new();
    struct process_list *processes = &snapshot->processes;

    processes->items = arena_alloc(&snapshot->arena, count * sizeof(*processes->items));
    for (; processes->count < count; processes->count++) {
        struct process_metric *process = &processes->items[processes->count];
        record_init(&process_metric_record, process);
        process->pid = pids[processes->count];
        process->command = arena_strdup(&snapshot->arena, names[processes->count]);
        process->run_id = arena_strdup(&snapshot->arena, "run-1");
    }
    return snapshot;
}

static void test_processes_are_named(void **state _unused_)
{
    struct command_cache cache = {0};
    struct tick_box *box = tick_box_new();

    box->tick.snapshot =
        make_snapshot(2, (int64_t[]){10, 11}, (const char *[]){"make all", "sh -c cc"});
    command_cache_name(&cache, box);
    tick_box_free(box); /* with the snapshot, as the store does */

    box = tick_box_new();
    tick_box_add_spawn(box, first, 12, 10, 1);
    tick_box_add_event(box, first, EVENT_EXEC, 12, 2);
    tick_box_add_event(box, first, EVENT_EXEC, 12, 3);
    tick_box_add_event(box, first, EVENT_EXEC, 11, 3); /* executed an unknown program */
    tick_box_add_end(box, first, 11, EXITED(0), 4);
    tick_box_add_end(box, first, 10, EXITED(0), 5);
    tick_box_add_end(box, first, 13, EXITED(0), 6); /* started and ended between snapshots */
    box->tick.snapshot = make_snapshot(1, (int64_t[]){12}, (const char *[]){"cc -c a.c"});
    command_cache_name(&cache, box);

    const struct process_event *events = box->tick.events.items;
    assert_string_equal(events[0].command, "cc -c a.c");
    assert_null(events[1].command); /* a program that was replaced unseen */
    assert_string_equal(events[2].command, "cc -c a.c");
    assert_null(events[3].command);
    assert_null(events[4].command);
    assert_string_equal(events[5].command, "make all");
    assert_null(events[6].command);
    tick_box_free(box);
    command_cache_done(&cache);
}

static void test_processes_are_named_without_a_snapshot(void **state _unused_)
{
    struct command_cache cache = {0};
    struct tick_box *box = tick_box_new();

    box->tick.snapshot = make_snapshot(1, (int64_t[]){10}, (const char *[]){"make all"});
    command_cache_name(&cache, box);
    tick_box_free(box);
    for (int i = 0; i < 2; i++) { /* what is known stays known */
        box = tick_box_new();
        tick_box_add_end(box, first, 10, EXITED(0), 1);
        command_cache_name(&cache, box);
        assert_string_equal(box->tick.events.items[0].command, "make all");
        tick_box_free(box);
    }
    command_cache_done(&cache);
}

/* A pid that no process has. */
#define NO_PID (1 << 30)

static const char *name_exec(struct command_cache *cache, struct tick_box *box, pid_t pid,
                             const char *reported)
{
    struct process_event exec = {.pid = pid};

    command_cache_name_exec(cache, box, reported, &exec);
    return exec.command;
}

/* The last snapshot shows the process by that command. */
static void show(struct command_cache *cache, pid_t pid, const char *command)
{
    struct tick_box *box = tick_box_new();

    box->tick.snapshot = make_snapshot(1, (int64_t[]){pid}, &command);
    command_cache_name(cache, box);
    tick_box_free(box);
}

static void test_expected_exec_is_named(void **state _unused_)
{
    struct command_cache cache = {0};
    struct tick_box *box = tick_box_new();

    command_cache_expect(&cache, NO_PID, "/bin/make", NULL);
    assert_null(name_exec(&cache, box, NO_PID + 1, NULL));
    assert_string_equal(name_exec(&cache, box, NO_PID, NULL), "[make]");
    assert_null(name_exec(&cache, box, NO_PID, NULL)); /* executes something else */
    command_cache_expect(&cache, NO_PID, "sh", "sh -c 'exit 2'");
    assert_string_equal(name_exec(&cache, box, NO_PID, NULL), "sh -c 'exit 2'");
    command_cache_expect(&cache, NO_PID, "./build", "./build"); /* its interpreter is unknown */
    assert_string_equal(name_exec(&cache, box, NO_PID, NULL), "[build]");

    show(&cache, NO_PID, "/bin/sh ./script");
    assert_null(name_exec(&cache, box, NO_PID, NULL));
    command_cache_expect(&cache, NO_PID, "./script", NULL);
    assert_string_equal(name_exec(&cache, box, NO_PID, NULL), "/bin/sh ./script");
    show(&cache, NO_PID, "[sonde]"); /* during its exec */
    command_cache_expect(&cache, NO_PID, "scr\xffipt", NULL);
    assert_string_equal(name_exec(&cache, box, NO_PID, NULL), "[scr\xef\xbf\xbdipt]");

    /* A reported or read command line takes precedence. */
    command_cache_expect(&cache, NO_PID, "./script", NULL);
    assert_string_equal(name_exec(&cache, box, NO_PID, "/bin/sh ./script"), "/bin/sh ./script");
    assert_null(name_exec(&cache, box, NO_PID, NULL));
    command_cache_expect(&cache, getpid(), "./other", NULL);
    assert_non_null(strstr(name_exec(&cache, box, getpid(), NULL), "test-tick-box"));
    tick_box_free(box);
    command_cache_done(&cache);
}

/* A program that fails at once may have ended when its exec is read. */
static void test_exec_of_a_zombie_is_named(void **state _unused_)
{
    struct command_cache cache = {0};
    struct tick_box *box = tick_box_new();
    siginfo_t end;

    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 1", NULL);
        _exit(1);
    }
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    assert_string_equal(name_exec(&cache, box, pid, NULL), "[sh]");
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_null(name_exec(&cache, box, pid, NULL));
    tick_box_free(box);
    command_cache_done(&cache);
}

static void test_expected_exec_that_was_lost(void **state _unused_)
{
    struct command_cache cache = {0};
    struct tick_box *box = tick_box_new();

    command_cache_expect(&cache, NO_PID, "make", NULL);
    command_cache_drop_expected(&cache);
    assert_null(name_exec(&cache, box, NO_PID, NULL));
    command_cache_expect(&cache, NO_PID, "make", NULL);
    tick_box_add_end(box, first, NO_PID, EXITED(0), 1);
    command_cache_name(&cache, box);
    assert_null(name_exec(&cache, box, NO_PID, NULL)); /* another process of that pid */
    tick_box_free(box);
    command_cache_done(&cache);
}

/* ---- copies ---- */

static void test_copy_owns_everything(void **state _unused_)
{
    char job_id[] = "job", name[] = "read";
    struct tally tally = {.name = name, .value = 2};
    struct sheet_metric metric = {.sheet_num = 3, .peak_rss_mb = 7, .max_cpu_pct = 50};
    struct arena arena = {0};
    struct job job, copy;

    record_init(&job_record, &job);
    job.job_id = job_id;
    job.profile.syscall_counts = (struct tally_list){.items = &tally, .count = 1};
    job.profile.sheet_metrics = (struct sheet_metric_list){.items = &metric, .count = 1};
    job.profile.peak_rss_mb = 12;
    assert_int_equal(record_copy(&job_record, &job, &arena, &copy), 0);
    job_id[0] = name[0] = 'x';
    tally.value = metric.peak_rss_mb = 0;

    assert_string_equal(copy.job_id, "job");
    assert_null(copy.run_id);
    assert_true(copy.profile.peak_rss_mb == 12);
    assert_int_equal(copy.profile.syscall_counts.count, 1);
    assert_string_equal(copy.profile.syscall_counts.items[0].name, "read");
    assert_true(copy.profile.syscall_counts.items[0].value == 2);
    assert_null(copy.profile.syscall_hotspots.items);
    assert_int_equal(copy.profile.sheet_metrics.items[0].sheet_num, 3);
    assert_true(copy.profile.sheet_metrics.items[0].peak_rss_mb == 7);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_belong_to_their_runs),
        cmocka_unit_test(test_kill_replaces_its_signal),
        cmocka_unit_test(test_signal_that_has_killed_already),
        cmocka_unit_test(test_signal_before_an_exit),
        cmocka_unit_test(test_kill_without_a_sender),
        cmocka_unit_test(test_end_is_found),
        cmocka_unit_test(test_box_gets_full),
        cmocka_unit_test(test_loss_becomes_gaps),
        cmocka_unit_test(test_only_lifecycle_events_are_kept),
        cmocka_unit_test(test_processes_are_named),
        cmocka_unit_test(test_processes_are_named_without_a_snapshot),
        cmocka_unit_test(test_expected_exec_is_named),
        cmocka_unit_test(test_exec_of_a_zombie_is_named),
        cmocka_unit_test(test_expected_exec_that_was_lost),
        cmocka_unit_test(test_copy_owns_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
