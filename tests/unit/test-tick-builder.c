#include "engine/tick-builder.h"
#include "engine/unseen-events.h"

#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "unit.h"

#define EXITED(status) ((status) << 8)
/* A pid that no process has. */
#define NO_PID (1 << 30)

static const struct event_owner owner = {
    .run_id = "run-1", .job_id = "job-1", .uid = 1000, .sheet_num = INT_UNKNOWN};

static struct tick_box *finish_and_take(struct tick_builder *builder, struct snapshot *snapshot)
{
    tick_builder_finish(builder, snapshot);
    struct tick_box *box = tick_builder_take(builder);
    assert_non_null(box);
    return box;
}

/* ---- boxes ---- */

static void test_full_box_is_complete(void **state _unused_)
{
    struct tick_builder builder = {.wants_events = true};
    struct snapshot *snapshot = snapshot_new();

    for (pid_t pid = 1; pid <= 2 * TICK_EVENTS_MAX + 1; pid++)
        tick_builder_add_spawn(&builder, owner, pid, 1, 1);
    tick_builder_finish(&builder, snapshot);

    for (pid_t first = 1; first <= 1 + TICK_EVENTS_MAX; first += TICK_EVENTS_MAX) {
        struct tick_box *full = tick_builder_take(&builder);
        assert_non_null(full);
        assert_int_equal(full->tick.events.count, TICK_EVENTS_MAX);
        assert_int_equal(full->tick.events.items[0].pid, first);
        assert_null(full->tick.snapshot);
        tick_box_free(full);
    }
    struct tick_box *last = tick_builder_take(&builder);
    assert_int_equal(last->tick.events.count, 1);
    assert_ptr_equal(last->tick.snapshot, snapshot);
    assert_null(last->next);
    tick_box_free(last);
    assert_null(tick_builder_take(&builder));
    assert_int_equal(tick_builder_take_lost(&builder), 0);
    tick_builder_done(&builder);
}

static void test_boxes_are_taken_in_order_at_any_time(void **state _unused_)
{
    struct tick_builder builder = {.wants_events = true};

    assert_null(tick_builder_take(&builder));
    tick_builder_finish(&builder, NULL); /* there is no box */
    assert_null(tick_builder_take(&builder));
    for (pid_t pid = 1; pid <= 3; pid++) {
        tick_builder_add_spawn(&builder, owner, pid, 1, 1);
        tick_builder_finish(&builder, NULL);
    }
    for (pid_t pid = 1; pid <= 2; pid++) {
        struct tick_box *box = tick_builder_take(&builder);
        assert_int_equal(box->tick.events.items[0].pid, pid);
        tick_box_free(box);
    }
    tick_builder_add_spawn(&builder, owner, 4, 1, 1);
    tick_builder_finish(&builder, NULL);
    struct tick_box *box = tick_builder_take(&builder);
    assert_int_equal(box->tick.events.items[0].pid, 3);
    tick_box_free(box);
    tick_builder_done(&builder); /* frees the box that was not taken */
}

static void test_events_can_be_switched_off(void **state _unused_)
{
    struct tick_builder builder = {0};

    tick_builder_add_spawn(&builder, owner, 1, 1, 1);
    assert_null(tick_builder_add_end(&builder, owner, 1, EXITED(0), 2));
    assert_null(builder.box);
    tick_builder_add_gap(&builder, &(struct gap){.kind = GAP_SUSPEND, .seconds = 5});
    struct tick_box *box = finish_and_take(&builder, NULL);
    assert_int_equal(box->tick.events.count, 0);
    assert_int_equal(box->tick.gaps.count, 1);
    tick_box_free(box);
    tick_builder_done(&builder);
}

/* ---- senders ---- */

static void send_signal(struct tick_builder *builder, const struct member *member,
                        int64_t sender_uid)
{
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_SIGNAL);
    event.pid = member->pid;
    event.signal_num = SIGTERM;
    event.sender_pid = getpid();
    event.sender_name = "test-tick-build"; /* the kernel keeps 15 bytes */
    event.sender_uid = sender_uid;
    tick_builder_add_lifecycle(builder, member, &event, 1);
}

static void test_sender_is_named_by_its_command_line_to_its_own_user_alone(void **state _unused_)
{
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 1000};
    const struct member member = {.pid = NO_PID, .run = &run, .sheet_num = 2};
    struct tick_builder builder = {.wants_events = true};

    send_signal(&builder, &member, 1000);
    send_signal(&builder, &member, 1001);
    struct tick_box *box = finish_and_take(&builder, NULL);
    const struct process_event *events = box->tick.events.items;
    assert_int_equal(box->tick.events.count, 2);
    assert_has(events[0].sender_command, "unit/test-tick-builder");
    assert_string_equal(events[1].sender_command, "test-tick-build");
    assert_int_equal(events[0].sheet_num, 2);
    tick_box_free(box);
    tick_builder_done(&builder);
}

static void test_signal_to_a_process_that_has_ended_is_dropped(void **state _unused_)
{
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 1000};
    const struct member member = {.pid = NO_PID, .run = &run, .has_ended = true};
    struct tick_builder builder = {.wants_events = true};

    send_signal(&builder, &member, 1000);
    assert_null(builder.box);
    tick_builder_done(&builder);
}

static void test_kill_in_a_later_box_has_its_sender(void **state _unused_)
{
    struct process_event sent;
    struct tick_builder builder = {.wants_events = true};

    record_init(&process_event_record, &sent);
    sent.signal_num = SIGKILL;
    sent.sender_pid = 77;
    sent.sender_command = "oom-guard";
    tick_builder_add_signal(&builder, owner, NO_PID, &sent, 1);
    tick_box_free(finish_and_take(&builder, NULL));

    const struct process_event *kill = tick_builder_add_end(&builder, owner, NO_PID, SIGKILL, 2);
    assert_int_equal(kill->event_type, EVENT_KILL);
    assert_int_equal(kill->sender_pid, 77);
    assert_string_equal(kill->sender_command, "oom-guard");
    tick_builder_done(&builder);
}

/* ---- figures and failures ---- */

static void test_exit_has_its_figures(void **state _unused_)
{
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 0};
    const struct member member = {.pid = NO_PID, .run = &run, .sheet_num = INT_UNKNOWN};
    struct tick_builder builder = {.wants_events = true};
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXIT);
    event.pid = NO_PID;
    event.wait_status = EXITED(3);
    tick_builder_add_lifecycle(&builder, &member, &event, 1);
    event.cpu_ns = 1500000000;
    event.peak_rss_bytes = 3 << 20;
    tick_builder_add_lifecycle(&builder, &member, &event, 2);
    struct tick_box *box = finish_and_take(&builder, NULL);
    assert_int_equal(box->tick.events.items[0].exit_code, 3);
    assert_false(real_is_known(box->tick.events.items[0].cpu_seconds));
    assert_false(real_is_known(box->tick.events.items[0].peak_rss_mb));
    assert_true(box->tick.events.items[1].cpu_seconds == 1.5);
    assert_true(box->tick.events.items[1].peak_rss_mb == 3);
    tick_box_free(box);
    tick_builder_done(&builder);
}

static void test_oom_kill_outside_of_runs_has_name_and_user(void **state _unused_)
{
    struct tick_builder builder = {.wants_events = true};
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_OOM);
    event.pid = NO_PID;
    event.command = "hog\xff";
    event.details = "out of memory";
    event.uid = 1234;
    tick_builder_add_oom(&builder, EVENT_OWNER_NONE, &event, 1);
    tick_builder_add_oom(&builder, owner, &event, 1);
    struct tick_box *box = finish_and_take(&builder, NULL);
    const struct process_event *events = box->tick.events.items;
    assert_string_equal(events[0].command, "hog\xef\xbf\xbd");
    assert_null(events[0].run_id);
    assert_int_equal(events[0].uid, 1234);
    assert_null(events[1].command); /* members are named by their command line */
    assert_int_equal(events[1].uid, 1000);
    tick_box_free(box);
    tick_builder_done(&builder);
}

static int find_chain(const struct tick_builder *builder, struct arena *arena, size_t *ret_links)
{
    struct process_event_list chain = {0}, on_the_way;
    int r = failure_chains_find(&builder->failures, "run-1", NO_PID, 7, INT_UNKNOWN, arena, &chain,
                                &on_the_way);

    *ret_links = chain.count;
    return r;
}

static void test_failure_chain_follows_complete_boxes(void **state _unused_)
{
    struct tick_builder builder = {.wants_events = true};
    _cleanup_(arena_done) struct arena arena = {0};
    size_t links;

    tick_builder_add_spawn(&builder, owner, NO_PID, 1, 1);
    tick_builder_add_spawn(&builder, owner, NO_PID + 1, NO_PID, 2);
    tick_builder_add_end(&builder, owner, NO_PID + 1, EXITED(7), 3);
    tick_builder_add_end(&builder, owner, NO_PID, EXITED(7), 3.0001);
    assert_int_equal(find_chain(&builder, &arena, &links), -ENOENT);
    tick_box_free(finish_and_take(&builder, NULL));
    assert_int_equal(find_chain(&builder, &arena, &links), 0);
    assert_int_equal(links, 2);
    tick_builder_done(&builder);
}

static void test_step_is_an_event_of_its_own_kind(void **state _unused_)
{
    struct tick_builder builder = {.wants_events = true};

    tick_builder_add_step(&builder, owner, EVENT_EXIT, 0, 4, "step failed", 1);
    struct tick_box *box = finish_and_take(&builder, NULL);
    assert_true(box->tick.events.items[0].is_step);
    assert_int_equal(box->tick.events.items[0].exit_code, 4);
    assert_string_equal(box->tick.events.items[0].details, "step failed");
    tick_box_free(box);
    tick_builder_done(&builder);
}

/* ---- redaction ---- */

static const char *word_items[] = {"token"}, *other_items[] = {"key"};
static const struct text_list words = {word_items, 1}, other_words = {other_items, 1};

static void add_exec(struct tick_builder *builder, struct run *run, pid_t pid, const char *command)
{
    const struct member member = {.pid = pid, .run = run, .sheet_num = INT_UNKNOWN};
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXEC);
    event.pid = pid;
    event.command = command;
    tick_builder_add_lifecycle(builder, &member, &event, 1);
}

static void test_commands_are_redacted_where_they_enter(void **state _unused_)
{
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 1000};
    const struct member member = {.pid = NO_PID, .run = &run, .sheet_num = INT_UNKNOWN};
    struct tick_builder builder = {.wants_events = true};
    struct lifecycle_event event;

    assert_int_equal(tick_builder_redact(&builder, &words), 1);
    add_exec(&builder, &run, NO_PID, "login token=abc key=abc");
    lifecycle_event_init(&event, LIFECYCLE_SIGNAL);
    event.pid = member.pid;
    event.signal_num = SIGTERM;
    event.sender_pid = NO_PID + 1; /* it is gone */
    event.sender_name = "token=abc";
    tick_builder_add_lifecycle(&builder, &member, &event, 1);
    struct tick_box *box = finish_and_take(&builder, NULL);
    assert_string_equal(box->tick.events.items[0].command, "login token=*** key=abc");
    assert_string_equal(box->tick.events.items[1].sender_command, "token=***");
    tick_box_free(box);
    tick_builder_done(&builder);
}

/* A reload: what waits, and what later events and chains are named by. */
static void test_other_words_redact_what_is_kept(void **state _unused_)
{
    static const char redacted[] = "login token=*** key=***";
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 1000};
    struct tick_builder builder = {.wants_events = true};
    struct process_event_list on_the_way, chain = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_event sent;

    assert_int_equal(tick_builder_redact(&builder, &words), 1);
    tick_builder_add_spawn(&builder, owner, NO_PID, 1, 1);
    add_exec(&builder, &run, NO_PID, "login token=abc key=abc");
    record_init(&process_event_record, &sent);
    sent.signal_num = SIGKILL;
    sent.sender_command = "kill key=abc";
    tick_builder_add_signal(&builder, owner, NO_PID, &sent, 1);
    tick_box_free(finish_and_take(&builder, NULL));         /* published as it was */
    for (pid_t pid = NO_PID + 2; pid < NO_PID + 4; pid++) { /* two complete boxes wait */
        add_exec(&builder, &run, pid, "early key=abc");
        tick_builder_finish(&builder, NULL);
    }
    add_exec(&builder, &run, NO_PID + 1, "wait key=abc");

    assert_int_equal(tick_builder_redact(&builder, &words), 0);
    assert_int_equal(tick_builder_redact(&builder, &other_words), 1);
    for (int i = 0; i < 2; i++) {
        struct tick_box *early = tick_builder_take(&builder);
        assert_string_equal(early->tick.events.items[0].command, "early key=***");
        tick_box_free(early);
    }
    tick_builder_add_end(&builder, owner, NO_PID, SIGKILL, 2);
    struct tick_box *box = finish_and_take(&builder, NULL);
    assert_string_equal(box->tick.events.items[0].command, "wait key=***");
    assert_string_equal(box->tick.events.items[1].command, redacted);
    assert_string_equal(box->tick.events.items[1].sender_command, "kill key=***");
    tick_box_free(box);
    assert_int_equal(failure_chains_find(&builder.failures, "run-1", NO_PID, INT_UNKNOWN, SIGKILL,
                                         &arena, &chain, &on_the_way),
                     0);
    assert_string_equal(chain.items[0].command, redacted);

    /* failures that have happened */
    assert_int_equal(tick_builder_redact(&builder, &(struct text_list){(const char *[]){"log"}, 1}),
                     1);
    tick_builder_done(&builder);
}

/* OOM kills that the detector has not seen yet. */
static void test_other_words_redact_unseen_kills(void **state _unused_)
{
    struct unseen_events unseen = {.arena = {0}};
    struct process_event kill;

    record_init(&process_event_record, &kill);
    kill.event_type = EVENT_OOM;
    kill.command = "wait key=abc";
    unseen_events_add(&unseen, &(struct process_event_list){&kill, 1});
    unseen_events_redact(&unseen, &other_words);
    assert_string_equal(unseen_events_list(&unseen).items[0].command, "wait key=***");
    unseen_events_done(&unseen);
}

static void test_kill_at_the_limit_of_cpu_time(void **state _unused_)
{
    struct run run = {.run_id = "run-1", .job_id = "job-1", .uid = 1000};
    const struct member member = {.pid = NO_PID, .run = &run, .sheet_num = INT_UNKNOWN};
    struct tick_builder builder = {.wants_events = true};
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_SIGNAL);
    event.pid = NO_PID;
    event.signal_num = SIGKILL;
    event.cpu_limit_sec = 7;
    tick_builder_add_lifecycle(&builder, &member, &event, 1);
    tick_builder_add_end(&builder, member_owner(&member), NO_PID, SIGKILL, 2);
    struct tick_box *box = finish_and_take(&builder, NULL);
    const struct process_event *kill = &box->tick.events.items[box->tick.events.count - 1];
    assert_int_equal(kill->event_type, EVENT_KILL);
    assert_int_equal(kill->sender_pid, 0);
    assert_string_equal(kill->details, "CPU limit of 7 s");
    tick_box_free(box);
    tick_builder_done(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_box_is_complete),
        cmocka_unit_test(test_boxes_are_taken_in_order_at_any_time),
        cmocka_unit_test(test_events_can_be_switched_off),
        cmocka_unit_test(test_sender_is_named_by_its_command_line_to_its_own_user_alone),
        cmocka_unit_test(test_signal_to_a_process_that_has_ended_is_dropped),
        cmocka_unit_test(test_kill_in_a_later_box_has_its_sender),
        cmocka_unit_test(test_exit_has_its_figures),
        cmocka_unit_test(test_oom_kill_outside_of_runs_has_name_and_user),
        cmocka_unit_test(test_failure_chain_follows_complete_boxes),
        cmocka_unit_test(test_step_is_an_event_of_its_own_kind),
        cmocka_unit_test(test_commands_are_redacted_where_they_enter),
        cmocka_unit_test(test_other_words_redact_what_is_kept),
        cmocka_unit_test(test_other_words_redact_unseen_kills),
        cmocka_unit_test(test_kill_at_the_limit_of_cpu_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
