/* Which failed child is the reason: one process, its failed children, and its end. */
#include "unit.h"

#include <signal.h>

#include "base/macros.h"
#include "explain/failure-reason.h"

#define PARENT 100
#define NONE   9 /* more than the number of children */

struct child {
    const char *command;
    int64_t status; /* negative: the signal that killed it */
    bool is_followed;
    int64_t sender; /* 0: the kernel or unknown */
    double after;   /* seconds from its end to that of its parent */
};

struct scenario {
    const char *command;
    int64_t status;
    struct child children[4];
    size_t at;
    bool is_proven;
    bool keeps_going;
    double last_after; /* seconds from the end of its last child, if that did not fail */
};

static struct process_event end_of(const char *command, int64_t pid, int64_t status,
                                   double timestamp)
{
    struct process_event event;

    record_init(&process_event_record, &event);
    event.event_type = status < 0 ? EVENT_KILL : EVENT_EXIT;
    event.pid = pid;
    event.command = command;
    event.timestamp = timestamp;
    if (status < 0)
        event.signal_num = -status;
    else
        event.exit_code = status;
    return event;
}

static void check(const struct scenario *scenario, size_t number)
{
    const double ended = 1000;
    struct process_event ends[ARRAY_SIZE(scenario->children)];
    struct failed_child children[ARRAY_SIZE(scenario->children)];
    struct process_event end = end_of(scenario->command, PARENT, scenario->status, ended);
    struct failed_parent parent = {.end = &end,
                                   .children = children,
                                   .child_ended = REAL_UNKNOWN,
                                   .keeps_going = scenario->keeps_going};

    while (parent.count < ARRAY_SIZE(children) && scenario->children[parent.count].status)
        parent.count++;
    for (size_t i = 0; i < parent.count; i++) {
        const struct child *child = &scenario->children[i];
        ends[i] =
            end_of(child->command, PARENT + 1 + (int64_t)i, child->status, ended - child->after);
        if (child->sender)
            ends[i].sender_pid = child->sender;
        children[i] = (struct failed_child){.end = &ends[i],
                                            .later_failures = parent.count - 1 - i,
                                            .is_followed = child->is_followed};
        parent.child_ended = ends[i].timestamp;
    }
    if (scenario->last_after > 0)
        parent.child_ended = ended - scenario->last_after;
    if (scenario->status < 0)
        end.sender_pid = PARENT;
    struct failure_reason reason = failure_reason_find(&parent);
    if (reason.at != MIN(scenario->at, parent.count) ||
        (reason.at < parent.count && reason.is_proven != scenario->is_proven))
        fail_msg("scenario %zu, %s: %zu, %s", number, scenario->command, reason.at,
                 reason.is_proven ? "proven" : "not proven");
}

static void test_scenarios(void **state _unused_)
{
    static const struct scenario scenarios[] = {
        /* shells */
        {"sh x", 1, {{"cp", 1}}, 0, true},
        {"sh x", 1, {{"grep", 1}}, 0, false},
        {"sh x", 2, {{"grep", 2}}, 0, true},
        {"sh x", 5, {{"ls", 2}}, 0, false},
        {"sh x", 5, {{"grep", 1}}, NONE},
        {"sh x", 5, {{"ls", 2, .is_followed = true}}, NONE},
        {"sh x", 1, {{"cp", 1, .is_followed = true}}, NONE},
        {"sh x", 2, {{"make", 2, .is_followed = true}}, 0, true},
        {"sh x", 1, {{"cp", 1, .after = 60}}, NONE},
        {"sh x", 1, {{"cp", 1, .after = 1}}, 0, false, .last_after = 0.1}, /* not the last to end */
        {"sh x", 5, {{"a", 5, .after = 1}}, 0, true, .last_after = 0.1},   /* pipefail */
        {"sh x", 2, {{"ls", 2, .is_followed = true}}, 0, false},
        {"sh -c ls x; rm y; exit 2", 2, {{"ls x", 2, .is_followed = true}}, 0, false},
        {"sh x", 3, {{"a", 3, .is_followed = true}}, 0, true},
        {"sh x", 3, {{"a", 3, .is_followed = true, .after = 60}}, 0, false},
        {"sh x", 127, {{"a", 127, .is_followed = true}}, 0, false}, /* tool || another */
        {"sh x", 255, {{"a", 255, .is_followed = true}}, 0, false},
        {"sh x", 137, {{"a", -SIGKILL, .is_followed = true}}, 0, false},
        {"sh x", 127, {{"a", 127}}, 0, true},
        {"sh x", 125, {{"a", 125, .is_followed = true}}, 0, true},
        {"sh x", 139, {{"a", -SIGSEGV}}, 0, true},
        {"sh x", 1, {{"a", -SIGSEGV}}, 0, true},
        {"sh x", 4, {{"a", -SIGSEGV}}, 0, false},
        {"sh x", 1, {{"a", -SIGKILL, .sender = PARENT}}, NONE},
        {"sh x", 1, {{"a", -SIGTERM, .sender = 7}}, 0, false},
        {"python3 a.py", 1, {{"a", -SIGKILL, .sender = 7}, {"b", -SIGTERM, .sender = PARENT}}, 0},
        {"python3 a.py",
         1,
         {{"a", 3, .is_followed = true}, {"b", -SIGTERM, .sender = PARENT}},
         NONE},
        {"sh x", 1, {{"a", -SIGTERM}}, NONE},
        {"sh x", 3, {{"a", 3}, {"b", 3}}, 1, true},
        {"sh x", 3, {{"a", 3}, {"b", 4}}, 0, true},
        {NULL, 1, {{NULL, 1}}, 0, false}, /* may have been grep */
        {NULL, 3, {{NULL, 3}}, 0, true},
        /* the text of the script */
        {"sh -c ls x; exit 2", 2, {{"ls x", 2}}, 0, false},
        {"sh -c ls x", 2, {{"ls x", 2}}, 0, true},
        {"sh -c a && grep x f", 1, {{"grep x f", 1}}, 0, true},
        {"sh -c ./work || exit 3", 3, {{"/bin/sh ./work", 7}}, 0, true},
        {"sh -c ./work || exit 3", 3, {{"/bin/sh ./work", 7, .is_followed = true}}, NONE},
        {"python3 -c run(['a'], check=True)", 1, {{"a", 3}}, 0, true},
        {"python3 a.py", 1, {{"a", 3}}, 0, false},
        {"python3 a.py", 1, {{"a", 1}}, 0, false},
        {"python3 a.py", 2, {{"a", 2}}, 0, true},
        {"./program", 1, {{"a", 1}}, 0, false},
        {"./program", 3, {{"a", 3, .is_followed = true, .after = 60}}, 0, false},
        {"./program", 3, {{"a", 3, .is_followed = true}}, 0, false},
        {"./program", 3, {{"a", 3}}, 0, true},
        {"./program", 2, {{"make", 2, .is_followed = true}}, 0, false},
        {"python3 a.py", 1, {{"a", -SIGSEGV}}, 0, false}, /* may have expected it */
        {"python3 a.py", 4, {{"a", -SIGSEGV}}, 0, false},
        {"python3 a.py", 139, {{"a", -SIGSEGV}}, 0, true},
        /* programs that run others */
        {"make", 2, {{"cc", 1}}, 0, true},
        {"make", 2, {{"cc", 1}, {"cc", 1}}, 0, true},
        {"make", 2, {{"ls", 2, .is_followed = true}}, NONE}, /* ignored */
        {"make", 2, {{"ls", 2, .is_followed = true}, {"cc", 1}}, 1, true},
        {"make -k", 2, {{"cc", 1, .is_followed = true}, {"cc", 4}}, 0, true},
        {"make", 2, {{"cc", 1, .is_followed = true}}, 0, true, .keeps_going = true},
        {"make", 1, {{"cc", 2}}, 0, false},       /* make -q */
        {"make", 2, {{"grep x f", 1}}, 0, false}, /* $(shell …), or a recipe */
        {"make", 2, {{"grep x f", 2}}, 0, true},
        {"make", 2, {{"grep x f", 1, .is_followed = true}, {"cc", 1}}, 1, true},
        {"make", 2, {{NULL, 1}}, 0, true},
        {"make", 2, {{"cc", -SIGKILL, .sender = 7}}, 0, true},
        {"ninja", 1, {{"sh", 3}}, 0, true},
        {"ninja", 1, {{"grep x f", 1}}, 0, false},
        {"cargo build", 101, {{"rustc a.rs", 1}}, 0, true},
        {"cargo build", 101, {{"git fetch", 128}}, 0, false},
        {"cargo test", 101, {{"/x/target/debug/deps/a", 101}}, 0, true},
        {"cargo run", 1, {{"cc x", 1}}, 0, false},
        {"go build", 1, {{"/usr/lib/go/pkg/tool/compile", 2}}, 0, true},
        {"go build", 1, {{"git status", 1}}, 0, false},
        {"go build", 1, {{"gcc --version", 1}}, 0, false},
        {"xargs a", 123, {{"a", 1, .is_followed = true, .after = 60}, {"a", 2}}, 0, true},
        {"xargs a", 123, {{"a", -SIGTERM}, {"a", 2}}, 1, true},
        {"xargs a", 124, {{"a", 1, .is_followed = true}, {"a", 255}}, 1, true},
        {"xargs a", 125, {{"a", -SIGTERM}}, 0, true},
        {"timeout 5 a", 124, {{"a", -SIGTERM, .sender = PARENT}}, 0, true},
        {"timeout 5 grep", 1, {{"grep", 1}}, 0, true},
        {"perl /usr/bin/parallel a", 2, {{"tput", 2, true}, {"a", 7, true}, {"a", 9}}, 1, true},
        {"perl /usr/bin/parallel a", 1, {{"tput", 2, true}, {"a", 7}}, 1, true},
        {"perl /usr/bin/parallel a", 3, {{"tput", 2, true}, {"a", 7}}, NONE},
        {"perl /usr/bin/parallel --no", 255, {{"tput", 2}}, NONE},
        {"perl /usr/bin/parallel --halt now,fail=1 a", 7, {{"tput", 2, true}, {"a", 7}}, 1, true},
        /* wrappers */
        {"sudo grep x f", 1, {{"grep x f", 1}}, 0, true},
        {"npm run build", 3, {{"sh", 3}}, 0, true},
        {"npm run build", 3, {{"sh", 4}}, 0, false},
        {"npm run build", 1, {{"git x", 1, .is_followed = true}, {"sh", 1}}, 1, true},
        {"npm run build", 1, {{"node -v", 1, .after = 1}}, 0, false, .last_after = 0.1},
        {"npm run build", 1, {{"node -v", 1, .is_followed = true}}, NONE},
        {"npm run build", 1, {{"git x", 1}}, 0, false},
        {"npm run build", 3, {{"sh", 3, .is_followed = true}}, 0, false},
        {"npm run build", 139, {{"sh", -SIGSEGV}}, 0, true},
        {"cmake --build .", 2, {{"make", 2}}, 0, true},
        {"cmake -B .", 1, {{"cc", 1}}, NONE},
        /* tests */
        {"python3 -m pytest", 1, {{"a", 1}}, NONE},
        {"ctest", 8, {{"a", 1}, {"b", 3}}, NONE},
        /* signals */
        {"bash x", -SIGINT, {{"a", -SIGINT}}, 0, true},
        {"bash x", -SIGINT, {{"a", -SIGTERM}}, NONE},
        {"bash x", -SIGINT, {{"a", -SIGINT, .is_followed = true}}, NONE},
        {"bash x", -SIGINT, {{"a", 1}}, NONE},
        {"sh x", 1, {{0}}, NONE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
        check(&scenarios[i], i);
}

/* A child that another process killed did not kill its parent. */
static void test_killed_by_another(void **state _unused_)
{
    struct process_event child = end_of("a", 101, -SIGTERM, 999.9);
    struct process_event end = end_of("bash x", PARENT, -SIGTERM, 1000);
    struct failed_child children[] = {{.end = &child}};
    struct failed_parent parent = {
        .end = &end, .children = children, .count = 1, .child_ended = 999.9};

    end.sender_pid = 7;
    assert_int_equal(failure_reason_find(&parent).at, 1);
    end.sender_pid = INT_UNKNOWN;
    assert_int_equal(failure_reason_find(&parent).at, 1);
}

/* Many jobs have failed: the first is no longer known, so the last stands for them. */
static void test_many_failed_jobs(void **state _unused_)
{
    struct process_event first = end_of("tput", 101, 2, 900), last = end_of("a", 102, 7, 999.9);
    struct process_event end = end_of("perl /usr/bin/parallel a", PARENT, 40, 1000);
    struct failed_child children[] = {
        {.end = &first, .later_failures = 60, .is_followed = true},
        {.end = &last, .later_failures = 0},
    };
    struct failed_parent parent = {
        .end = &end, .children = children, .count = 2, .child_ended = 999.9};
    struct failure_reason reason = failure_reason_find(&parent);

    assert_int_equal(reason.at, 1);
    assert_true(reason.is_proven);
    end.exit_code = 101; /* more than it counts, but only 61 failed */
    assert_int_equal(failure_reason_find(&parent).at, 2);
    children[0].later_failures = 200;
    assert_int_equal(failure_reason_find(&parent).at, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios),
        cmocka_unit_test(test_killed_by_another),
        cmocka_unit_test(test_many_failed_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
