#include "unit.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "probe/connector.h"

struct log {
    struct lifecycle_event events[4096];
    size_t count;
};

static void note(void *context, const struct lifecycle_event *event)
{
    struct log *log = context;
    if (log->count < ARRAY_SIZE(log->events))
        log->events[log->count++] = *event;
}

/* ---- the parser ---- */

static size_t put_message(unsigned char *into, uint32_t idx, const struct proc_event *event)
{
    struct nlmsghdr header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct cn_msg) + sizeof(*event))};
    struct cn_msg message = {.id = {.idx = idx, .val = CN_VAL_PROC}, .len = sizeof(*event)};

    memcpy(into, &header, sizeof(header));
    memcpy(into + NLMSG_HDRLEN, &message, sizeof(message));
    memcpy(into + NLMSG_HDRLEN + sizeof(message), event, sizeof(*event));
    return NLMSG_ALIGN(header.nlmsg_len);
}

static size_t put_three(unsigned char *into)
{
    struct proc_event fork_event = {.what = PROC_EVENT_FORK, .timestamp_ns = 5};
    struct proc_event thread_event = {.what = PROC_EVENT_FORK};
    struct proc_event exit_event = {.what = PROC_EVENT_EXIT};

    fork_event.event_data.fork.parent_tgid = 1;
    fork_event.event_data.fork.child_pid = fork_event.event_data.fork.child_tgid = 2;
    thread_event.event_data.fork.parent_tgid = 1;
    thread_event.event_data.fork.child_tgid = 2;
    thread_event.event_data.fork.child_pid = 3;
    exit_event.event_data.exit.process_pid = exit_event.event_data.exit.process_tgid = 2;
    exit_event.event_data.exit.exit_code = 0x300;
    size_t length = put_message(into, CN_IDX_PROC, &fork_event);
    length += put_message(into + length, CN_IDX_PROC, &thread_event);
    return length + put_message(into + length, CN_IDX_PROC, &exit_event);
}

static void test_parse(void **state _unused_)
{
    unsigned char bytes[1024];
    struct log log = {.count = 0};

    size_t length = put_three(bytes);
    assert_int_equal(connector_parse(bytes, length, note, &log), 0);
    assert_int_equal(log.count, 3);
    assert_int_equal(log.events[0].kind, LIFECYCLE_FORK);
    assert_int_equal(log.events[0].pid, 2);
    assert_int_equal(log.events[0].ppid, 1);
    assert_int_equal(log.events[0].mono_ns, 5);
    assert_int_equal(log.events[1].kind, LIFECYCLE_THREAD);
    assert_int_equal(log.events[1].tid, 3);
    assert_int_equal(log.events[2].kind, LIFECYCLE_EXIT);
    assert_int_equal(WEXITSTATUS(log.events[2].wait_status), 3);
}

static size_t put_answer(unsigned char *into, uint32_t ack, uint32_t error)
{
    struct proc_event event = {.what = PROC_EVENT_NONE};
    struct cn_msg message;

    event.event_data.ack.err = error;
    size_t length = put_message(into, CN_IDX_PROC, &event);
    memcpy(&message, into + NLMSG_HDRLEN, sizeof(message));
    message.ack = ack;
    memcpy(into + NLMSG_HDRLEN, &message, sizeof(message));
    return length;
}

/* Every listener receives the answers to all of them. */
static void test_answers_to_others_are_ignored(void **state _unused_)
{
    unsigned char bytes[1024];

    size_t length = put_answer(bytes, 1, 0); /* of a request without a number */
    length += put_answer(bytes + length, 8, 0);
    length += put_three(bytes + length);
    assert_int_equal(connector_parse_answer(bytes, length, 8), 1);
    length += put_answer(bytes + length, 9, EPERM);
    assert_int_equal(connector_parse_answer(bytes, length, 8), -EPERM);
    length = put_answer(bytes, 0, 0);
    assert_int_equal(connector_parse_answer(bytes, length, UINT32_MAX), 0);
}

static void test_parse_truncated_or_foreign_bytes(void **state _unused_)
{
    unsigned char bytes[1024], cut[1024];
    size_t length = put_three(bytes);

    for (size_t i = 0; i < length; i++) {
        struct log log = {.count = 0};
        memcpy(cut, bytes, i); /* the rest must not be read */
        memset(cut + i, 0xFF, sizeof(cut) - i);
        int r = connector_parse(cut, i, note, &log);
        assert_true(r == 0 || r == -EBADMSG);
        assert_true(log.count <= 2);
    }
    struct log log = {.count = 0};
    struct proc_event event = {.what = PROC_EVENT_EXEC};
    length = put_message(bytes, CN_IDX_PROC + 1, &event); /* another service's */
    assert_int_equal(connector_parse(bytes, length, note, &log), 0);
    assert_int_equal(log.count, 0);
    memset(bytes, 0, sizeof(bytes)); /* a message of length 0 must not cause an endless loop */
    assert_int_equal(connector_parse(bytes, sizeof(bytes), note, &log), -EBADMSG);
}

/* ---- the kernel ---- */

static void test_a_child_from_fork_to_exit(void **state _unused_)
{
    static struct log log;
    struct connector *connector;
    unsigned seen = 0;

    int r = connector_open(&connector);
    if (r < 0)
        skip(); /* not for this user, or not in this pid namespace */
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    waitpid(pid, NULL, 0);
    assert_int_equal(connector_drain(connector, note, &log), 0);
    for (size_t i = 0; i < log.count; i++) {
        const struct lifecycle_event *event = &log.events[i];
        if (event->pid != pid)
            continue;
        seen |= 1u << event->kind;
        if (event->kind == LIFECYCLE_FORK)
            assert_int_equal(event->ppid, getpid());
        if (event->kind == LIFECYCLE_EXIT)
            assert_int_equal(WEXITSTATUS(event->wait_status), 7);
    }
    assert_int_equal(seen, 1u << LIFECYCLE_FORK | 1u << LIFECYCLE_EXIT);
    connector_close(connector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_answers_to_others_are_ignored),
        cmocka_unit_test(test_parse_truncated_or_foreign_bytes),
        cmocka_unit_test(test_a_child_from_fork_to_exit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
