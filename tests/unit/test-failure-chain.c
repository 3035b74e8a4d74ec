/* The first failure: event histories, and the sentence that is made from each. A cause is reported
 * only if the events support it. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "explain/failure-chain.h"
#include "failing-allocator.h"
#include "model/cause.h"

#define RUN   "01a1e3e1-45ae-78cc-abb3-504d935c0c4a"
#define INNER "01a1e3e1-45ae-78cc-abb3-504d935c0c4b"
#define ROOT  100

static struct failure_chains chains;
static double now;
static const char *run_id = RUN;

static int set_up(void **state)
{
    (void)state;
    now = 1000;
    run_id = RUN;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    failure_chains_done(&chains);
    return 0;
}

/* ---- events ---- */

static struct process_event event_of(int type, int64_t pid)
{
    struct process_event event;

    record_init(&process_event_record, &event);
    event.details_are_calls = false;
    event.timestamp = now += 0.001;
    event.event_type = type;
    event.pid = pid;
    event.run_id = run_id;
    event.job_id = "job";
    return event;
}

static void spawns(int64_t parent, int64_t pid)
{
    struct process_event event = event_of(EVENT_SPAWN, pid);

    event.ppid = parent;
    failure_chains_add(&chains, &event);
}

static void executes(int64_t pid, const char *command)
{
    struct process_event event = event_of(EVENT_EXEC, pid);

    event.command = command;
    failure_chains_add(&chains, &event);
}

static void starts(int64_t parent, int64_t pid, const char *command)
{
    spawns(parent, pid);
    executes(pid, command);
}

static void exits(int64_t pid, int64_t status)
{
    struct process_event event = event_of(EVENT_EXIT, pid);

    event.exit_code = status;
    failure_chains_add(&chains, &event);
}

static void is_killed(int64_t pid, int number, int64_t sender, const char *sender_command)
{
    struct process_event event = event_of(EVENT_KILL, pid);

    event.signal_num = number;
    event.sender_pid = sender;
    event.sender_command = sender_command;
    failure_chains_add(&chains, &event);
}

static void is_chosen_for_memory(int64_t pid, const char *details)
{
    struct process_event event = event_of(EVENT_OOM, pid);

    event.details = details;
    failure_chains_add(&chains, &event);
}

/* The cause of an end that was seen; NULL: none was found. */
static const char *cause_of(int64_t pid, int64_t exit_code, int64_t signal_num)
{
    static char cause[CAUSE_MAX_BYTES + 1];
    struct process_event_list chain, on_the_way;
    struct arena arena = {0};

    int r = failure_chains_find(&chains, RUN, (pid_t)pid, exit_code, signal_num, &arena, &chain,
                                &on_the_way);
    if (r == 0)
        cause_format(&chain, &on_the_way, cause);
    arena_done(&arena);
    return r == 0 ? cause : NULL;
}

#define assert_exit_cause(status, words)                                                           \
    assert_string_equal(cause_of(ROOT, status, INT_UNKNOWN), words)
#define assert_kill_cause(signal, words)                                                           \
    assert_string_equal(cause_of(ROOT, INT_UNKNOWN, signal), words)

/* ---- exit statuses ---- */

static void test_alone(void **state)
{
    (void)state;
    starts(1, ROOT, "/usr/bin/python3 train.py");
    exits(ROOT, 3);
    assert_exit_cause(3, "exit status 3");
    assert_null(cause_of(ROOT, 4, INT_UNKNOWN)); /* it did not end this way */
    assert_null(cause_of(ROOT + 1, 3, INT_UNKNOWN));
    assert_null(cause_of(ROOT, INT_UNKNOWN, SIGKILL));
    assert_string_equal(cause_of(0, 3, INT_UNKNOWN), "exit status 3");
}

static void test_success_has_no_cause(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c 'false; true'");
    starts(ROOT, 101, "false");
    exits(101, 1);
    exits(ROOT, 0);
    assert_null(cause_of(0, 0, INT_UNKNOWN));
}

/* ---- chains ---- */

static void test_compiler(void **state)
{
    (void)state;
    starts(1, ROOT, "make -j4 all");
    starts(ROOT, 101, "cc -c ok.c");
    starts(ROOT, 102, "cc -c a.c");
    starts(102, 103, "/usr/lib/gcc/cc1 -quiet a.c");
    is_killed(103, SIGKILL, 812, "kill -9 103");
    exits(102, 1);
    exits(101, 0); /* make waits for the others */
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2: cc1 (103) killed by SIGKILL, sent by pid 812 (kill -9 103)"
                         " → cc exited 1 → make exited 2");
}

static void test_first_of_several(void **state)
{
    (void)state;
    starts(1, ROOT, "make -j4");
    starts(ROOT, 101, "cc a.c");
    starts(ROOT, 102, "cc b.c");
    exits(102, 1);
    exits(101, 1);
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2: cc (102) exited 1 → make exited 2");
}

static void test_grandchild_through_shells(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c 'bash b.sh; exit $?'");
    starts(ROOT, 101, "bash b.sh");
    starts(101, 102, "./work");
    exits(102, 3);
    exits(101, 3);
    exits(ROOT, 3);
    assert_exit_cause(3, "exit status 3: work (102) exited 3 → bash exited 3 → sh exited 3");
}

static void test_shell_status_of_a_signal(void **state)
{
    (void)state;
    starts(1, ROOT, "sh run.sh");
    starts(ROOT, 101, "./crash");
    is_killed(101, SIGSEGV, 0, NULL);
    exits(ROOT, 139);
    assert_exit_cause(
        139, "exit status 139: crash (101) killed by SIGSEGV, a fault of its own → sh exited 139");
}

static void test_without_names(void **state)
{
    (void)state;
    spawns(1, ROOT);
    executes(ROOT, NULL);
    spawns(ROOT, 101);
    executes(101, NULL);
    exits(101, 3);
    exits(ROOT, 3);
    assert_exit_cause(3, "exit status 3: pid 101 exited 3 → pid 100 exited 3");
}

static void test_subshell_has_the_name_of_its_parent(void **state)
{
    (void)state;
    starts(1, ROOT, "bash x.sh");
    spawns(ROOT, 101);
    exits(101, 4);
    exits(ROOT, 4);
    assert_exit_cause(4, "exit status 4: bash (101) exited 4 → bash exited 4");
}

/* ---- failures that are not the cause ---- */

static void test_handled_by_a_shell(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c 'false; sleep 1; exit 3'");
    starts(ROOT, 101, "false");
    exits(101, 1);
    starts(ROOT, 102, "sleep 1");
    exits(102, 0);
    exits(ROOT, 3);
    assert_exit_cause(3, "exit status 3");
}

static void test_other_status_of_a_shell(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c 'false; exit 3'");
    starts(ROOT, 101, "false");
    exits(101, 1);
    exits(ROOT, 3);
    /* it was the last child: whether the shell handled its failure is unknown */
    assert_exit_cause(3, "exit status 3; failed on the way: false (101) exited 1");
}

/* A shell script that has its own name, because its command line could not be read. */
static void test_other_status_of_a_script(void **state)
{
    (void)state;
    starts(1, ROOT, "[build]");
    spawns(ROOT, 101);
    exits(101, 7);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1; failed on the way: build (101) exited 7");
    /* Not a script: the program returns the first failure, not the last. */
    starts(1, ROOT, "[make]");
    starts(ROOT, 101, "cc a.c");
    starts(ROOT, 102, "cc b.c");
    exits(101, 1);
    exits(102, 1);
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2: cc (101) exited 1 → make exited 2");
}

static void test_crash_below_a_shell(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c ./work || exit 1");
    starts(ROOT, 101, "./work");
    is_killed(101, SIGKILL, 812, "admin");
    exits(ROOT, 1);
    assert_exit_cause(
        1, "exit status 1: work (101) killed by SIGKILL, sent by pid 812 (admin) → sh exited 1");
    /* a fault, as any other */
    starts(1, ROOT, "sh -c ./work || exit 1");
    starts(ROOT, 101, "./work");
    is_killed(101, SIGTRAP, 0, NULL);
    exits(ROOT, 1);
    assert_exit_cause(
        1, "exit status 1: work (101) killed by SIGTRAP, a fault of its own → sh exited 1");
    /* the program raised it itself */
    starts(1, ROOT, "sh -c './server & kill -9 $!; exit 1'");
    starts(ROOT, 101, "./server");
    is_killed(101, SIGKILL, ROOT, "sh");
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
    /* it was asked to end */
    starts(1, ROOT, "sh x.sh");
    starts(ROOT, 101, "./server");
    is_killed(101, SIGTERM, INT_UNKNOWN, NULL);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
    /* the failure was long before */
    starts(1, ROOT, "sh x.sh");
    starts(ROOT, 101, "./work");
    is_killed(101, SIGKILL, INT_UNKNOWN, NULL);
    now += 60;
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
}

static void test_handled_and_then_the_same_small_status(void **state)
{
    (void)state;
    starts(1, ROOT, "sh x.sh");
    starts(ROOT, 101, "grep -q x y");
    exits(101, 1);
    starts(ROOT, 102, "cp a b");
    exits(102, 0);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
}

static void test_passed_on_after_cleaning_up(void **state)
{
    (void)state;
    starts(1, ROOT, "sh -c 'make; s=$?; rm -r tmp; exit $s'");
    starts(ROOT, 101, "make");
    exits(101, 2);
    starts(ROOT, 102, "rm -r tmp");
    exits(102, 0);
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2: make (101) exited 2 → sh exited 2");
}

static void test_second_failure_is_the_cause(void **state)
{
    (void)state;
    starts(1, ROOT, "sh x.sh");
    starts(ROOT, 101, "./first");
    exits(101, 3);
    starts(ROOT, 102, "./second");
    exits(102, 3);
    exits(ROOT, 3);
    assert_exit_cause(3, "exit status 3: second (102) exited 3 → sh exited 3");
}

static void test_handled_by_a_program(void **state)
{
    (void)state;
    starts(1, ROOT, "python3 suite.py");
    starts(ROOT, 101, "./probe");
    exits(101, 1);
    now += 60; /* it has continued to work */
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
}

/* A child may fail as an answer; a program that ends differently has another reason. */
static void test_other_status_of_a_program(void **state)
{
    (void)state;
    starts(1, ROOT, "python3 check.py");
    starts(ROOT, 101, "grep -q x f");
    exits(101, 1);
    exits(ROOT, 5);
    assert_exit_cause(5, "exit status 5");
    starts(1, ROOT, "python3 check.py");
    starts(ROOT, 101, "grep -q x f");
    exits(101, 1);
    exits(ROOT, 1); /* perhaps a coincidence */
    assert_exit_cause(1, "exit status 1; failed on the way: grep (101) exited 1");
    /* subprocess.run(check=True) */
    starts(1, ROOT, "python3 check.py");
    starts(ROOT, 101, "./step");
    exits(101, 1);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1; failed on the way: step (101) exited 1");
    starts(1, ROOT, "python3 -c subprocess.run(['./step'], check=True)");
    starts(ROOT, 101, "./step");
    exits(101, 1);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1: step (101) exited 1 → python3 exited 1");
    /* asked to end */
    starts(1, ROOT, "python3 check.py");
    starts(ROOT, 101, "./server");
    is_killed(101, SIGTERM, ROOT, "python3");
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
}

/* Of several workers one is killed, and the others are stopped. */
static void test_crash_below_a_program(void **state)
{
    (void)state;
    starts(1, ROOT, "python3 pool.py");
    starts(ROOT, 101, "python3 worker");
    starts(ROOT, 102, "python3 worker");
    is_killed(102, SIGKILL, 0, NULL);
    is_killed(101, SIGTERM, ROOT, "python3");
    exits(ROOT, 1);
    assert_exit_cause(1,
                      "exit status 1; failed on the way: python3 (102) killed by SIGKILL, sent by"
                      " the kernel");
    starts(1, ROOT, "python3 pool.py");
    starts(ROOT, 101, "python3 worker");
    is_killed(101, SIGKILL, ROOT, "python3");
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1");
}

static void test_runners(void **state)
{
    static const char *const runners[] = {"make", "/usr/bin/x86_64-linux-gnu-gcc-13 -c a.c",
                                          "clang-17 a.c", "clang++ a.cc"};
    static const char *const others[] = {"python3.11 x", "maker", "gcc-ar-13", "a-", "-13", "-"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(runners); i++) {
        starts(1, ROOT, runners[i]);
        starts(ROOT, 101, "step");
        exits(101, 4);
        exits(ROOT, 2);
        assert_non_null(strstr(cause_of(ROOT, 2, INT_UNKNOWN), "step (101) exited 4 → "));
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        starts(1, ROOT, others[i]);
        starts(ROOT, 101, "step");
        exits(101, 4);
        exits(ROOT, 2);
        assert_exit_cause(2, "exit status 2; failed on the way: step (101) exited 4");
    }
}

static void test_failure_below_a_success(void **state)
{
    (void)state;
    starts(1, ROOT, "make");
    starts(ROOT, 101, "sh -c './probe || true'");
    starts(101, 102, "./probe");
    exits(102, 7);
    exits(101, 0);
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2");
}

static void test_failure_after_its_parent(void **state)
{
    (void)state;
    starts(1, ROOT, "make");
    starts(ROOT, 101, "server");
    exits(ROOT, 2);
    exits(101, 1);
    assert_exit_cause(2, "exit status 2");
}

static void test_killed_parent_needs_no_other_reason(void **state)
{
    (void)state;
    starts(1, ROOT, "make");
    starts(ROOT, 101, "cc a.c");
    exits(101, 1);
    is_killed(ROOT, SIGTERM, 7, "timeout 5 make");
    assert_kill_cause(SIGTERM, "killed by SIGTERM, sent by pid 7 (timeout 5 make)");
}

static void test_lost_events(void **state)
{
    (void)state;
    starts(1, ROOT, "make");
    starts(ROOT, 101, "cc a.c");
    failure_chains_drop_living(&chains);
    exits(101, 1);
    exits(ROOT, 2);
    assert_null(cause_of(0, 2, INT_UNKNOWN));
}

/* A scheduler starts one step after the other and reports a status at the end. */
static void test_steps(void **state)
{
    (void)state;
    starts(1, 201, "./fetch");
    exits(201, 3);
    assert_string_equal(cause_of(0, 3, INT_UNKNOWN), "exit status 3");
    starts(1, 202, "./fetch"); /* a retry */
    exits(202, 0);
    assert_null(cause_of(0, 3, INT_UNKNOWN));
    assert_string_equal(cause_of(201, 3, INT_UNKNOWN), "exit status 3"); /* if asked for */
    /* two steps at once; processes that they start are not steps */
    starts(1, 203, "sh build.sh");
    starts(1, 204, "./test");
    starts(203, 205, "cc a.c");
    exits(204, 3);
    starts(203, 206, "cc b.c");
    run_id = INNER;
    starts(1, 300, "another's"); /* processes of other runs do not count */
    run_id = RUN;
    assert_string_equal(cause_of(0, 3, INT_UNKNOWN), "exit status 3");
}

/* `bash -c 'a; b'` executes b itself: a program that was executed later did not see the failure. */
static void test_exec_after_a_failure(void **state _unused_)
{
    starts(1, ROOT, "bash -c './a; exec ./b'");
    starts(ROOT, 101, "./a");
    exits(101, 5);
    executes(ROOT, "sh ./b");
    exits(ROOT, 5);
    assert_exit_cause(5, "exit status 5");
}

/* The -k of a make holds for the makes below it, which do not have it in their command lines. */
static void test_make_below_make_k(void **state _unused_)
{
    starts(1, ROOT, "make -k");
    starts(ROOT, 101, "sh -c 'make -C sub'");
    starts(101, 102, "make -C sub");
    for (int i = 0; i < 20; i++) {
        starts(102, 200 + i, "cc");
        exits(200 + i, 1);
    }
    exits(102, 2);
    starts(ROOT, 103, "true");
    exits(103, 0);
    exits(101, 2);
    exits(ROOT, 2);
    assert_exit_cause(
        2, "exit status 2: cc (200) exited 1 → make exited 2 → sh exited 2 → make exited 2");
}

/* A status that a program gives a meaning. */
static void test_meaning_of_a_status(void **state _unused_)
{
    starts(1, ROOT, "sh -c 'pytest; exit $?'");
    starts(ROOT, 101, "python3 -m pytest");
    exits(101, 1);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1: python3 (101) exited 1 (tests failed) → sh exited 1");
    starts(1, ROOT, "pytest");
    exits(ROOT, 5);
    assert_exit_cause(5, "exit status 5 (no tests found)");
}

/* What failed on the way to the first failure of a chain, with its own chain. */
static void test_on_the_way(void **state _unused_)
{
    starts(1, ROOT, "make");
    starts(ROOT, 101, "sh build.sh");
    starts(101, 102, "cc a.c");
    starts(102, 103, "cc1 a.c");
    exits(103, 4);
    exits(102, 1);
    exits(101, 7);
    exits(ROOT, 2);
    assert_exit_cause(2, "exit status 2: sh (101) exited 7 → make exited 2; failed on the way: cc1"
                         " (103) exited 4 → cc exited 1");
    struct process_event_list chain, on_the_way;
    struct arena arena = {0};
    assert_int_equal(
        failure_chains_find(&chains, RUN, ROOT, 2, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    assert_true(cause_is_of_chain(cause_of(ROOT, 2, INT_UNKNOWN), &chain));
    assert_true(cause_is_of_chain("exit status 2: sh (101) exited 7 → make exited 2", &chain));
    assert_false(cause_is_of_chain("exit status 2", &chain));
    assert_false(cause_is_of_chain("exit status 2: sh (101) exited 7 → make exited 23", &chain));
    assert_false(cause_is_of_chain(NULL, &chain));
    assert_false(cause_is_of_chain("", &(struct process_event_list){0}));
    arena_done(&arena);
}

/* ---- signals ---- */

static void test_senders(void **state)
{
    (void)state;
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGKILL, INT_UNKNOWN, NULL);
    assert_kill_cause(SIGKILL, "killed by SIGKILL"); /* the sender was not seen */
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGABRT, ROOT, "job");
    assert_kill_cause(SIGABRT, "killed by SIGABRT, sent by itself");
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGSEGV, ROOT, "job"); /* by raise(), not by a fault */
    assert_kill_cause(SIGSEGV, "killed by SIGSEGV, sent by itself");
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGHUP, 0, NULL);
    assert_kill_cause(SIGHUP, "killed by SIGHUP, sent by the kernel");
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGSEGV, 9, "evil");
    assert_kill_cause(SIGSEGV, "killed by SIGSEGV, sent by pid 9 (evil)");
}

/* The command names of another run are not shown: it may belong to another user. */
static void test_sender_of_another_run(void **state)
{
    (void)state;
    run_id = INNER;
    starts(1, 900, "killer --password hunter2");
    run_id = RUN;
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGKILL, 900, "killer");
    assert_kill_cause(SIGKILL, "killed by SIGKILL, sent by pid 900 (killer)");
    starts(1, ROOT, "job");
    is_killed(ROOT, SIGKILL, 900, NULL);
    assert_null(strstr(cause_of(ROOT, INT_UNKNOWN, SIGKILL), "killer"));
    /* for members of the run, sonde knows more than the kernel reports */
    starts(1, ROOT, "job");
    starts(ROOT, 101, "./guard --limit 5");
    is_killed(ROOT, SIGKILL, 101, "guard");
    assert_kill_cause(SIGKILL, "killed by SIGKILL, sent by pid 101 (./guard --limit 5)");
}

static void test_killed_for_memory(void **state)
{
    (void)state;
    starts(1, ROOT, "bash job.sh");
    starts(ROOT, 101, "python3 train.py");
    is_chosen_for_memory(101, "memory cgroup /job, 64 MB");
    is_killed(101, SIGKILL, 0, NULL);
    exits(ROOT, 137);
    assert_exit_cause(137, "exit status 137: python3 (101) killed by the kernel for memory (OOM)"
                           " → bash exited 137");
    struct process_event_list chain, on_the_way;
    struct arena arena = {0};
    assert_int_equal(
        failure_chains_find(&chains, RUN, ROOT, 137, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    assert_int_equal(chain.items[0].event_type, EVENT_OOM);
    assert_string_equal(chain.items[0].details, "memory cgroup /job, 64 MB");
    chain.items[0].peak_rss_mb = 70.5;
    chain.count = 1;
    char cause[CAUSE_MAX_BYTES + 1];
    cause_format(&chain, &on_the_way, cause);
    assert_string_equal(cause, "killed by the kernel for memory (OOM) at 70.5 MB");
    arena_done(&arena);
    starts(1, ROOT, "hog");
    is_chosen_for_memory(ROOT, NULL);
    is_killed(ROOT, SIGKILL, 0, NULL);
    assert_kill_cause(SIGKILL, "killed by the kernel for memory (OOM)");
    /* the exit event may come first */
    starts(1, ROOT, "bash job.sh");
    starts(ROOT, 101, "python3 train.py");
    is_killed(101, SIGKILL, 0, NULL);
    is_chosen_for_memory(101, "memory cgroup /late, 8 MB");
    exits(ROOT, 137);
    assert_exit_cause(137, "exit status 137: python3 (101) killed by the kernel for memory (OOM)"
                           " → bash exited 137");
    assert_int_equal(
        failure_chains_find(&chains, RUN, ROOT, 137, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    assert_string_equal(chain.items[0].details, "memory cgroup /late, 8 MB");
    arena_done(&arena);
    starts(1, ROOT, "hog");
    is_killed(ROOT, SIGKILL, 0, NULL);
    is_chosen_for_memory(ROOT, NULL);
    assert_kill_cause(SIGKILL, "killed by the kernel for memory (OOM)");
    /* a process that was selected but survived is not the cause */
    starts(1, ROOT, "lucky");
    is_chosen_for_memory(ROOT, NULL);
    exits(ROOT, 5);
    assert_exit_cause(5, "exit status 5");
}

/* ---- bounds ---- */

/* An end that happened at `timestamp`, whenever it is reported. */
static void has_exited(int64_t pid, int64_t status, double timestamp)
{
    double reported = now;

    now = timestamp - 0.001; /* as event_of() counts */
    exits(pid, status);
    now = reported;
}

static void start_three_shells(void)
{
    starts(1, ROOT, "sh -c './inner; exit $?'");
    starts(ROOT, 101, "sh inner");
    starts(101, 102, "sh -c 'exit 3'");
}

#define THREE_SHELLS "exit status 3: sh (102) exited 3 → sh exited 3 → sh exited 3"

/* Ends of one family in every order that two sources can bring them in. */
static void test_ends_that_are_reported_late(void **state _unused_)
{
    static const int64_t orders[][3] = {{102, 101, ROOT}, {102, ROOT, 101}, {101, 102, ROOT},
                                        {101, ROOT, 102}, {ROOT, 101, 102}, {ROOT, 102, 101}};

    for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
        start_three_shells();
        double at = now + 1;
        for (size_t k = 0; k < 3; k++)
            has_exited(orders[i][k], 3, at - 0.01 * (double)(orders[i][k] - ROOT));
        assert_exit_cause(3, THREE_SHELLS);
        failure_chains_forget_run(&chains, RUN);
    }
}

/* A process that ends after its parent did not cause the parent's end. */
static void test_orphan_that_fails_later(void **state _unused_)
{
    starts(1, ROOT, "sh -c './server & exit 3'");
    starts(ROOT, 101, "server");
    starts(ROOT, 102, "other");
    exits(ROOT, 3);
    now += 0.01;
    exits(101, 3);
    assert_exit_cause(3, "exit status 3");
    /* … and a process without further events uses no memory */
    failure_chains_forget_run(&chains, RUN);
    assert_null(cause_of(ROOT, 3, INT_UNKNOWN));
}

/* The pid of the parent was reused meanwhile. */
static void test_late_end_of_a_former_parent(void **state _unused_)
{
    start_three_shells();
    has_exited(101, 3, now + 1);
    starts(ROOT, 101, "true");
    has_exited(102, 3, now + 0.9);
    now += 2;
    exits(101, 0);
    exits(ROOT, 3);
    assert_exit_cause(3, THREE_SHELLS);
}

static void test_long_chain_that_is_reported_late(void **state _unused_)
{
    struct process_event_list chain, on_the_way;
    struct arena arena = {0};
    int64_t last = ROOT + 3 * FAILURE_CHAIN_MAX;

    starts(1, ROOT, "sh 0");
    for (int64_t pid = ROOT + 1; pid <= last; pid++)
        starts(pid - 1, pid, "sh");
    double at = now + 1;
    for (int64_t pid = ROOT; pid <= last; pid++)
        has_exited(pid, 3, at - 0.001 * (double)(pid - ROOT));
    assert_int_equal(
        failure_chains_find(&chains, RUN, ROOT, 3, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    assert_int_equal(chain.count, FAILURE_CHAIN_MAX);
    assert_int_equal(chain.items[0].pid, last);
    assert_int_equal(chain.items[chain.count - 1].pid, ROOT);
    arena_done(&arena);
}

static void test_long_chain(void **state)
{
    char command[32];

    (void)state;
    starts(1, ROOT, "p0");
    for (int i = 1; i < 40; i++) {
        snprintf(command, sizeof(command), "p%d", i);
        starts(ROOT + i - 1, ROOT + i, command);
    }
    for (int i = 39; i >= 0; i--)
        exits(ROOT + i, 9);
    assert_exit_cause(9, "exit status 9: p39 (139) exited 9 → p38 exited 9 → p37 exited 9 → p36"
                         " exited 9 → … → p25 exited 9 → p0 exited 9");
}

static void test_long_texts(void **state)
{
    char command[2001];

    (void)state;
    memset(command, 'x', sizeof(command) - 1);
    command[sizeof(command) - 1] = '\0';
    starts(1, ROOT, command);
    starts(ROOT, 101, command);
    is_killed(101, SIGKILL, 7, command);
    exits(ROOT, 1);
    assert_in_range(strlen(cause_of(ROOT, 1, INT_UNKNOWN)), 200, CAUSE_MAX_BYTES);
}

/* Each failure of a storm is handled, because another start follows; the last one is not. */
static void test_storm_of_failures(void **state)
{
    (void)state;
    starts(1, ROOT, "sh loop.sh");
    for (int i = 0; i < 100000; i++) {
        starts(ROOT, 1000 + i % 1000, "false");
        exits(1000 + i % 1000, 1);
    }
    assert_int_equal(chains.living.count, 1);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1: false (1999) exited 1 → sh exited 1");
}

/* Many children fail before the program reaps them: the first stays known. */
static void test_crowd_of_failures(void **state)
{
    (void)state;
    starts(1, ROOT, "ninja");
    for (int i = 0; i < 100; i++)
        starts(ROOT, 200 + i, "cc");
    for (int i = 0; i < 100; i++)
        exits(200 + i, 1);
    exits(ROOT, 1);
    assert_exit_cause(1, "exit status 1: cc (200) exited 1 → ninja exited 1");
}

static void test_runs_are_forgotten(void **state)
{
    (void)state;
    starts(1, ROOT, "make");
    starts(ROOT, 101, "sonde run -- work");
    run_id = INNER;
    starts(101, 102, "work");
    exits(102, 3);
    struct process_event_list chain, on_the_way;
    struct arena arena = {0};
    assert_int_equal(
        failure_chains_find(&chains, INNER, 0, 3, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    failure_chains_forget_run(&chains, INNER);
    assert_int_equal(
        failure_chains_find(&chains, INNER, 0, 3, INT_UNKNOWN, &arena, &chain, &on_the_way),
        -ENOENT);
    arena_done(&arena);
    run_id = RUN;
    exits(101, 3);
    exits(ROOT, 2);
    /* the inner run is part of the outer one */
    assert_exit_cause(2, "exit status 2: work (102) exited 3 → sonde exited 3 → make exited 2");
    failure_chains_forget_run(&chains, RUN);
    assert_null(cause_of(0, 2, INT_UNKNOWN));
    assert_int_equal(chains.living.count, 0);
}

/* ---- redaction ---- */

/* Of living processes and of failures: the chains that share a failure see it, and a text that
 * grows keeps its end. */
static void test_other_words_of_redaction(void **state)
{
    static const char *items[] = {"key"};
    const struct text_list words = {items, 1};
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_event_list chain, on_the_way;

    (void)state;
    starts(1, ROOT, "sh build key=abc");
    starts(ROOT, 101, "make key=a all");
    starts(101, 102, "work --key a x");
    exits(102, 3);
    failure_chains_redact(&chains, &(struct text_list){(const char *[]){"other"}, 1});
    failure_chains_redact(&chains, &words);
    assert_string_equal(failure_chains_command(&chains, ROOT), "sh build key=***");
    assert_string_equal(failure_chains_command(&chains, 101), "make key=*** all");
    exits(101, 2);
    exits(ROOT, 2);
    failure_chains_redact(&chains, &words);
    assert_int_equal(
        failure_chains_find(&chains, RUN, ROOT, 2, INT_UNKNOWN, &arena, &chain, &on_the_way), 0);
    assert_int_equal(chain.count, 3);
    assert_string_equal(chain.items[0].command, "work --key *** x");
    assert_string_equal(chain.items[2].command, "sh build key=***");
}

/* ---- without memory ---- */

static void replay_events(void)
{
    starts(1, ROOT, "make");
    starts(ROOT, 101, "cc a.c");
    is_chosen_for_memory(101, "words");
    is_killed(101, SIGKILL, 0, NULL);
    exits(ROOT, 2);
}

/* Then less is known, but nothing is wrong. */
static void test_without_memory(void **state)
{
    (void)state;
    for (int for_good = 0; for_good < 2; for_good++)
        for (long at = 1; at < 40; at++) {
            countdown = at;
            fails_for_good = for_good;
            is_failing = true;
            replay_events();
            is_failing = false;
            const char *cause = cause_of(ROOT, 2, INT_UNKNOWN);
            assert_true(!cause || strstr(cause, "cc (101) killed by the kernel for memory"));
            assert_true(at < 39 || cause); /* fewer allocations than that */
            failure_chains_done(&chains);
        }
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_alone),
        T(test_success_has_no_cause),
        T(test_compiler),
        T(test_first_of_several),
        T(test_grandchild_through_shells),
        T(test_shell_status_of_a_signal),
        T(test_without_names),
        T(test_subshell_has_the_name_of_its_parent),
        T(test_handled_by_a_shell),
        T(test_other_status_of_a_shell),
        T(test_other_status_of_a_script),
        T(test_crash_below_a_shell),
        T(test_handled_and_then_the_same_small_status),
        T(test_passed_on_after_cleaning_up),
        T(test_second_failure_is_the_cause),
        T(test_handled_by_a_program),
        T(test_other_status_of_a_program),
        T(test_crash_below_a_program),
        T(test_runners),
        T(test_failure_below_a_success),
        T(test_failure_after_its_parent),
        T(test_killed_parent_needs_no_other_reason),
        T(test_lost_events),
        T(test_steps),
        T(test_exec_after_a_failure),
        T(test_make_below_make_k),
        T(test_meaning_of_a_status),
        T(test_on_the_way),
        T(test_senders),
        T(test_sender_of_another_run),
        T(test_killed_for_memory),
        T(test_ends_that_are_reported_late),
        T(test_orphan_that_fails_later),
        T(test_late_end_of_a_former_parent),
        T(test_long_chain_that_is_reported_late),
        T(test_long_chain),
        T(test_other_words_of_redaction),
        T(test_long_texts),
        T(test_storm_of_failures),
        T(test_crowd_of_failures),
        T(test_runs_are_forgotten),
        T(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
