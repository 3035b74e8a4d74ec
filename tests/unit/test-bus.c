#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "daemon/bus.h"

/* ---- a subscriber that records events ---- */

#define SEEN_MAX 4096

struct listener {
    struct bus_subscriber *subscriber;
    const struct bus_event *seen[SEEN_MAX]; /* only to be compared */
    char json[SEEN_MAX][128];               /* their beginning */
    size_t count;

    int returns;            /* what on_event returns next */
    size_t takes;           /* if not 0: returns 1 at the event of that number */
    struct listener *drops; /* unsubscribes this one */
    const char *publishes;  /* publishes this, once, */
    size_t times;           /* or this many times */
};

static struct bus *bus;
static struct listener *listeners[128];
static size_t listener_count;

static void publish(const char *name, int64_t uid);

static int remember(void *context, const struct bus_event *event)
{
    struct listener *listener = context;

    if (listener->drops && listener->drops->subscriber) {
        struct bus_subscriber *subscriber = TAKE_PTR(listener->drops->subscriber);
        bus_unsubscribe(bus, subscriber);
    }
    const char *publishes = TAKE_PTR(listener->publishes);
    for (size_t i = 0; publishes && i < MAX(listener->times, (size_t)1); i++)
        publish(publishes, INT_UNKNOWN);
    if (listener->returns)
        return listener->returns;
    if (listener->takes && listener->count + 1 == listener->takes)
        return 1;
    assert_in_range(listener->count, 0, SEEN_MAX - 1);
    snprintf(listener->json[listener->count], sizeof(listener->json[0]), "%s",
             text_string(bus_event_json(event)));
    listener->seen[listener->count++] = event;
    return 0;
}

static const struct bus_view all = {.sees_all = true};

static struct listener *listen_to(const char *const *patterns, size_t count,
                                  const struct bus_view *view)
{
    struct listener *listener = calloc(1, sizeof(*listener));

    assert_non_null(listener);
    assert_in_range(listener_count, 0, ARRAY_SIZE(listeners) - 1);
    listeners[listener_count++] = listener;
    assert_int_equal(
        bus_subscribe(bus, patterns, count, view, remember, listener, &listener->subscriber), 0);
    return listener;
}

static struct listener *listener_new(const char *pattern, const struct bus_view *view)
{
    return listen_to(&pattern, 1, view);
}

static int set_up(void **state _unused_)
{
    return bus_new(&bus);
}

static int tear_down(void **state _unused_)
{
    bus_free(bus);
    while (listener_count)
        free(listeners[--listener_count]);
    return 0;
}

static void publish(const char *name, int64_t uid)
{
    bus_publish(bus, &(struct bus_message){.event = name, .sheet_num = INT_UNKNOWN, .uid = uid});
}

static void publish_to_all(const char *name)
{
    bus_publish(bus,
                &(struct bus_message){.event = name, .sheet_num = INT_UNKNOWN, .is_public = true});
}

/* An envelope of exactly `size` bytes. */
static void publish_large(size_t size)
{
    _cleanup_text_ struct text data = {0};
    size_t around = strlen("{\"event\":\"big\",\"timestamp\":0,\"job_id\":null,\"sheet_num\":null,"
                           "\"data\":\"\"}");

    text_append_char(&data, '"');
    text_append_repeated(&data, 'x', size - around);
    text_append_char(&data, '"');
    bus_publish(bus,
                &(struct bus_message){
                    .event = "big", .sheet_num = INT_UNKNOWN, .is_public = true, .data = &data});
}

/* ---- names and envelopes ---- */

static void test_envelope(void **state _unused_)
{
    struct listener *listener = listener_new("*", &all);
    _cleanup_text_ struct text data = {0};

    text_append_string(&data, "{\"a\":1}");
    bus_publish(bus, &(struct bus_message){.event = "sheet.started",
                                           .timestamp = 1789000000.25,
                                           .job_id = "b\"x",
                                           .sheet_num = 3,
                                           .uid = 5,
                                           .data = &data});
    assert_int_equal(listener->count, 1);
    assert_string_equal(listener->json[0],
                        "{\"event\":\"sheet.started\",\"timestamp\":1789000000.25,\"job_id\":"
                        "\"b\\\"x\",\"sheet_num\":3,\"data\":{\"a\":1}}");
    publish("job.started", INT_UNKNOWN);
    assert_string_equal(listener->json[1], "{\"event\":\"job.started\",\"timestamp\":0,\"job_id\":"
                                           "null,\"sheet_num\":null,\"data\":null}");
}

static void test_patterns(void **state _unused_)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"*", "sheet.started", true},
        {"sheet.*", "sheet.started", true},
        {"sheet.*", "sheets.started", false},
        {"sheet.*", "job.started", false},
        {"sheet.started", "sheet.started", true},
        {"sheet.start", "sheet.started", false},
        {"sheet.started", "sheet.start", false},
        {"monitor.anomaly", "monitor.anomaly_cleared", false},
        {"monitor.anomaly*", "monitor.anomaly_cleared", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct listener *listener = listener_new(cases[i].pattern, &all);
        publish(cases[i].name, INT_UNKNOWN);
        assert_int_equal(listener->count, cases[i].matches);
    }
}

static void test_refused_patterns(void **state _unused_)
{
    struct bus_subscriber *subscriber;
    const char *many[BUS_PATTERNS_MAX + 1];
    static const char *const bad[] = {"", "*.started", "sh*eet.*", "**"};

    for (size_t i = 0; i < ARRAY_SIZE(many); i++)
        many[i] = "a.b";
    assert_int_equal(bus_subscribe(bus, many, 0, &all, remember, NULL, &subscriber), -EINVAL);
    assert_int_equal(bus_subscribe(bus, many, ARRAY_SIZE(many), &all, remember, NULL, &subscriber),
                     -EINVAL);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(bus_subscribe(bus, &bad[i], 1, &all, remember, NULL, &subscriber),
                         -EINVAL);
    assert_int_equal(bus_subscriber_count(bus), 0);
    assert_int_equal(bus_subscribe(bus, many, BUS_PATTERNS_MAX, &all, remember, NULL, &subscriber),
                     0);
    assert_int_equal(bus_subscriber_count(bus), 1);
    bus_unsubscribe(bus, subscriber);
    assert_int_equal(bus_subscriber_count(bus), 0);
}

static void test_several_patterns_give_an_event_once(void **state _unused_)
{
    char first[] = "sheet.*", second[] = "*";
    const char *patterns[] = {first, second};
    struct listener *listener = listen_to(patterns, 2, &all);

    memset(first, 'x', 3); /* they are copied */
    second[0] = 'x';
    publish("sheet.started", INT_UNKNOWN);
    assert_int_equal(listener->count, 1);
}

static void test_events_are_filtered_by_user(void **state _unused_)
{
    struct listener *root = listener_new("*", &all);
    struct listener *ada = listener_new("*", &(struct bus_view){.uid = 1000});
    struct listener *unknown = listener_new("*", &(struct bus_view){.uid = INT_UNKNOWN});

    publish("job.started", 1000);
    publish("job.started", 1001);
    publish("process.exec", INT_UNKNOWN); /* its owner is unknown */
    publish_to_all("monitor.gap");
    assert_int_equal(root->count, 4);
    assert_int_equal(ada->count, 2);
    assert_int_equal(unknown->count, 1);
    assert_ptr_equal(ada->seen[1], root->seen[3]); /* one event, shared */
}

static int hold(void *context, const struct bus_event *event)
{
    *(struct bus_event **)context = bus_event_ref(event);
    return 0;
}

static void test_event_that_is_held_outlives_its_queue(void **state _unused_)
{
    const char *pattern = "job.*";
    struct bus_subscriber *subscriber;
    struct bus_event *held = NULL;

    assert_false(bus_is_wanted(bus, "job.started"));
    assert_int_equal(bus_subscribe(bus, &pattern, 1, &all, hold, &held, &subscriber), 0);
    assert_true(bus_is_wanted(bus, "job.started"));
    assert_false(bus_is_wanted(bus, "sheet.started"));
    publish("job.started", INT_UNKNOWN);
    bus_unsubscribe(bus, subscriber);
    assert_false(bus_is_wanted(bus, "job.started"));
    assert_non_null(strstr(text_string(bus_event_json(held)), "\"job.started\""));
    bus_event_unref(held);
}

/* ---- queues ---- */

static void test_waiting_subscriber_loses_its_oldest_events(void **state _unused_)
{
    struct listener *slow = listener_new("*", &all), *quick = listener_new("*", &all);
    char name[32];

    slow->returns = 1;
    for (int i = 0; i < BUS_QUEUE_MAX_EVENTS + 7; i++) {
        snprintf(name, sizeof(name), "event.%d", i);
        publish(name, INT_UNKNOWN);
    }
    assert_int_equal(quick->count, BUS_QUEUE_MAX_EVENTS + 7); /* is not affected */
    assert_int_equal(slow->count, 0);
    struct bus_drops drops = bus_subscriber_drops(slow->subscriber);
    assert_int_equal(drops.events, 7);
    assert_true(drops.bytes > 7 * 50 && drops.bytes < 7 * 100);
    assert_int_equal(bus_subscriber_drops(quick->subscriber).events, 0);
    assert_int_equal(bus_drops(bus).events, 7);

    slow->returns = 0;
    publish("last", INT_UNKNOWN); /* it waits until it calls bus_resume */
    assert_int_equal(slow->count, 0);
    bus_resume(bus, slow->subscriber);
    assert_int_equal(slow->count, BUS_QUEUE_MAX_EVENTS);
    assert_non_null(strstr(slow->json[0], "\"event.8\""));
    assert_non_null(strstr(slow->json[BUS_QUEUE_MAX_EVENTS - 1], "\"last\""));
}

static void test_event_that_was_not_accepted_is_repeated(void **state _unused_)
{
    struct listener *listener = listener_new("*", &all);

    listener->takes = 2; /* the first is taken, the second is not */
    publish("a", INT_UNKNOWN);
    publish("b", INT_UNKNOWN);
    publish("c", INT_UNKNOWN);
    assert_int_equal(listener->count, 1);
    listener->takes = 0;
    bus_resume(bus, listener->subscriber);
    assert_int_equal(listener->count, 3);
    assert_non_null(strstr(listener->json[1], "\"b\""));
    assert_non_null(strstr(listener->json[2], "\"c\""));
    assert_int_equal(bus_drops(bus).events, 0);
}

static void test_bytes_of_a_queue(void **state _unused_)
{
    struct listener *listener = listener_new("*", &all);

    listener->returns = 1;
    publish_large(BUS_QUEUE_MAX_BYTES); /* fits exactly */
    assert_int_equal(bus_drops(bus).events, 0);
    publish_large(1000); /* evicts it */
    assert_int_equal(bus_drops(bus).events, 1);
    assert_int_equal(bus_drops(bus).bytes, BUS_QUEUE_MAX_BYTES);
    publish_large(BUS_QUEUE_MAX_BYTES + 1); /* fits nowhere, and evicts nothing */
    assert_int_equal(bus_drops(bus).events, 2);
    publish_large(BUS_QUEUE_MAX_BYTES - 1000);
    assert_int_equal(bus_drops(bus).events, 2);
    listener->returns = 0;
    bus_resume(bus, listener->subscriber);
    assert_int_equal(listener->count, 2);
}

/* The subscribers of one user share a limit, and one that reads loses nothing to the others. */
static void test_bytes_of_a_user(void **state _unused_)
{
    const struct bus_view ada = {.uid = 1000}, ben = {.uid = 1001};
    struct listener *stuck[5], *reads = listener_new("*", &ada), *other = listener_new("*", &ben);

    for (size_t i = 0; i < ARRAY_SIZE(stuck); i++) {
        stuck[i] = listener_new("*", &ada);
        stuck[i]->returns = 1;
    }
    other->returns = 1;
    for (int i = 0; i < 7; i++)
        publish_large(1024 * 1024);
    size_t queued = ARRAY_SIZE(stuck) * 7 * 1024 * 1024;
    assert_int_equal(bus_drops(bus).bytes, queued - BUS_USER_MAX_BYTES);
    assert_int_equal(reads->count, 7);
    assert_int_equal(bus_subscriber_drops(other->subscriber).events, 0);
    for (size_t i = 0; i < ARRAY_SIZE(stuck); i++) /* all of them a little */
        assert_in_range(bus_subscriber_drops(stuck[i]->subscriber).events, 0, 1);
    bus_unsubscribe(bus, TAKE_PTR(stuck[0]->subscriber)); /* makes room for the others */
    publish_large(1024 * 1024);
    assert_int_equal(bus_drops(bus).bytes, queued - BUS_USER_MAX_BYTES);
}

static void test_ring_wraps_around(void **state _unused_)
{
    struct listener *listener = listener_new("*", &all);
    char name[32];
    int published = 0;

    for (int round = 0; round < 12; round++) {
        listener->returns = 1;
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof(name), "event.%d", published++);
            publish(name, INT_UNKNOWN);
        }
        listener->returns = 0;
        bus_resume(bus, listener->subscriber);
    }
    assert_int_equal(listener->count, published);
    for (int i = 0; i < published; i++) {
        snprintf(name, sizeof(name), "\"event.%d\"", i);
        assert_non_null(strstr(listener->json[i], name));
    }
    assert_int_equal(bus_drops(bus).events, 0);
}

/* ---- failures ---- */

static void test_failing_subscriber_is_disabled(void **state _unused_)
{
    struct listener *bad = listener_new("*", &all), *good = listener_new("*", &all);

    bad->returns = -EIO;
    for (int i = 0; i < BUS_FAILURES_MAX - 1; i++)
        publish("a", INT_UNKNOWN);
    bad->returns = 0;
    publish("a", INT_UNKNOWN); /* breaks the row */
    assert_int_equal(bad->count, 1);
    bad->returns = -EIO;
    for (int i = 0; i < BUS_FAILURES_MAX - 1; i++)
        publish("a", INT_UNKNOWN);
    assert_false(bus_subscriber_drops(bad->subscriber).is_disabled);
    publish("a", INT_UNKNOWN);
    assert_true(bus_subscriber_drops(bad->subscriber).is_disabled);
    assert_true(bus_drops(bus).is_disabled);

    bad->returns = 0;
    publish("a", INT_UNKNOWN);
    bus_resume(bus, bad->subscriber);
    assert_int_equal(bad->count, 1);
    assert_int_equal(good->count, 2 * BUS_FAILURES_MAX + 1);
    assert_int_equal(bus_subscriber_drops(bad->subscriber).events, 2 * BUS_FAILURES_MAX - 1);
    assert_int_equal(bus_subscriber_count(bus), 2); /* disabled, not removed */
}

static void test_queue_of_a_disabled_subscriber_is_lost(void **state _unused_)
{
    struct listener *bad = listener_new("*", &all);

    bad->returns = 1;
    for (int i = 0; i < 30; i++)
        publish("a", INT_UNKNOWN);
    bad->returns = -EPIPE;
    bus_resume(bus, bad->subscriber);
    assert_int_equal(bus_subscriber_drops(bad->subscriber).events, 30);
}

/* ---- what subscribers do during an event ---- */

static void test_unsubscribing_another_during_an_event(void **state _unused_)
{
    for (int dropper = 0; dropper < 3; dropper++)
        for (int dropped = 0; dropped < 3; dropped++) { /* itself, too */
            set_up(NULL);
            for (size_t i = 0; i < 3; i++)
                listener_new("*", &all);
            listeners[dropper]->drops = listeners[dropped];
            publish("a", INT_UNKNOWN);
            assert_int_equal(bus_subscriber_count(bus), 2);
            /* A subscriber before the one that drops it has had the event; one behind never gets
             * it. */
            assert_int_equal(listeners[dropped]->count, dropped <= dropper);
            publish("b", INT_UNKNOWN);
            for (int i = 0; i < 3; i++)
                if (i != dropped)
                    assert_int_equal(listeners[i]->count, 2);
            tear_down(NULL);
        }
}

static void test_unsubscribing_with_a_full_queue(void **state _unused_)
{
    struct listener *slow = listener_new("*", &all), *other = listener_new("*", &all);

    slow->returns = 1;
    for (int i = 0; i < 50; i++)
        publish("a", INT_UNKNOWN);
    other->drops = slow;
    publish("a", INT_UNKNOWN);
    assert_int_equal(bus_subscriber_count(bus), 1);
    assert_int_equal(other->count, 51);
    assert_int_equal(bus_drops(bus).events, 0);
}

static void test_publishing_during_an_event_keeps_the_order(void **state _unused_)
{
    for (size_t i = 0; i < 3; i++)
        listener_new("*", &all);
    listeners[1]->publishes = "second";
    publish("first", INT_UNKNOWN);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(listeners[i]->count, 2);
        assert_non_null(strstr(listeners[i]->json[0], "\"first\""));
        assert_non_null(strstr(listeners[i]->json[1], "\"second\""));
    }
}

static void test_unsubscribed_during_an_event_gets_nothing_more(void **state _unused_)
{
    struct listener *first = listener_new("*", &all), *second = listener_new("*", &all);

    first->drops = second;
    first->publishes = "second";
    publish("first", INT_UNKNOWN);
    assert_int_equal(first->count, 2);
    assert_int_equal(second->count, 0);
}

static void test_queue_that_fills_during_an_event(void **state _unused_)
{
    struct listener *listener = listener_new("*", &all);

    listener->publishes = "newer";
    listener->times = BUS_QUEUE_MAX_EVENTS;
    listener->returns = 1;
    publish("oldest", INT_UNKNOWN); /* was not accepted, and has no room any more */
    assert_int_equal(bus_drops(bus).events, 1);
    listener->returns = 0;
    bus_resume(bus, listener->subscriber);
    assert_int_equal(listener->count, BUS_QUEUE_MAX_EVENTS);
    assert_non_null(strstr(listener->json[0], "\"newer\""));
}

/* ---- snapshots ---- */

/* Runs of ada (1000) and of bob (1001); the owner of `strange` is unknown. */
static int64_t owner_of(void *context, const char *run_id)
{
    if (context)
        ++*(size_t *)context;
    return strcmp(run_id, "run-a") == 0 ? 1000 : strcmp(run_id, "run-b") == 0 ? 1001 : INT_UNKNOWN;
}

static void set_process(struct process_metric *process, int64_t pid, int64_t uid,
                        const char *job_id, const char *run_id)
{
    record_init(&process_metric_record, process);
    process->pid = pid;
    process->uid = uid;
    process->job_id = job_id;
    process->run_id = run_id;
    process->command = "secret";
}

static struct snapshot *make_snapshot(void)
{
    struct snapshot *snapshot = snapshot_new();
    struct arena *arena = &snapshot->arena;
    struct process_metric *processes = arena_alloc(arena, 6 * sizeof(*processes));
    struct job_usage *jobs = arena_alloc(arena, 2 * sizeof(*jobs));
    struct job_progress *progress = arena_alloc(arena, 2 * sizeof(*progress));
    static int64_t zombies[] = {10, 12, 14};

    set_process(&processes[0], 10, 1000, NULL, NULL);
    set_process(&processes[1], 11, 1000, "job-a", "run-a");
    set_process(&processes[2], 12, 0, "job-a", "run-a"); /* sudo within ada's run */
    set_process(&processes[3], 13, 1001, "job-b", "run-b");
    set_process(&processes[4], 14, INT_UNKNOWN, NULL, NULL);
    set_process(&processes[5], 15, 1002, "job-s", "strange");
    for (size_t i = 0; i < 2; i++) {
        record_init(&job_usage_record, &jobs[i]);
        record_init(&job_progress_record, &progress[i]);
        jobs[i].job_id = progress[i].job_id = i ? "job-b" : "job-a";
        jobs[i].run_id = progress[i].run_id = i ? "run-b" : "run-a";
        progress[i].total_sheets = 4;
    }
    snapshot->timestamp = 1789000000;
    snapshot->processes = (struct process_list){processes, 6};
    snapshot->jobs = (struct job_usage_list){jobs, 2};
    snapshot->job_progress = (struct job_progress_list){progress, 2};
    snapshot->zombie_pids = (struct int_list){zombies, 3};
    snapshot->zombie_count = 3;
    snapshot->running_jobs = 2;
    return snapshot;
}

/* "10 11 12 | job-a | job-a | 10 12" */
static void describe(json_t *json, char *into, size_t size)
{
    static const char *const lists[][2] = {{"processes", "pid"},
                                           {"jobs", "job_id"},
                                           {"job_progress", "job_id"},
                                           {"zombie_pids", NULL}};
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        const json_t *list = json_object_get(json, lists[i][0]);
        text_append_string(&out, i ? "| " : "");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *item = json_array_get(list, k);
            const json_t *value = lists[i][1] ? json_object_get(item, lists[i][1]) : item;
            if (json_is_string(value))
                text_printf(&out, "%s ", json_string_value(value));
            else
                text_printf(&out, "%lld ", (long long)json_integer_value(value));
        }
    }
    snprintf(into, size, "%s", text_string(&out));
}

static void test_views_of_a_snapshot(void **state _unused_)
{
    static const struct {
        struct bus_view view;
        const char *sees;
    } cases[] = {
        {{.sees_all = true}, "10 11 12 13 14 15 | job-a job-b | job-a job-b | 10 12 14 "},
        {{.sees_all = true, .job = "job-b"}, "13 | job-b | job-b | "},
        {{.sees_all = true, .job = "run-a"}, "11 12 | job-a | job-a | 12 "},
        {{.sees_all = true, .job = "job"}, "| | | "},
        {{.uid = 1000}, "10 11 12 | job-a | job-a | 10 12 "},
        {{.uid = 1001}, "13 | job-b | job-b | "},
        {{.uid = 1002}, "15 | | | "},
        {{.uid = 1000, .job = "job-b"}, "| | | "},
        {{.uid = 1000, .job = "job-a"}, "11 12 | job-a | job-a | 12 "},
        {{.uid = INT_UNKNOWN}, "| | | "},
        {{.uid = 4711}, "| | | "},
    };
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    _cleanup_text_ struct text before = {0}, after = {0};

    bus_encode_snapshot(snapshot, &(struct bus_view){.sees_all = true}, owner_of, NULL, &before);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_text_ struct text out = {0};
        char seen[256];
        bus_encode_snapshot(snapshot, &cases[i].view, owner_of, NULL, &out);
        json_t *json = json_loads(text_string(&out), 0, NULL);
        assert_non_null(json);
        describe(json, seen, sizeof(seen));
        assert_string_equal(seen, cases[i].sees);
        /* Figures of the machine are visible to everyone, and unknown is null. */
        assert_int_equal(json_integer_value(json_object_get(json, "running_jobs")), 2);
        assert_int_equal(json_integer_value(json_object_get(json, "zombie_count")), 3);
        assert_true(json_is_null(json_object_get(json, "load_avg_1")));
        json_decref(json);
    }
    /* Views omit data; the snapshot, which others share, is as it was. */
    bus_encode_snapshot(snapshot, &(struct bus_view){.sees_all = true}, owner_of, NULL, &after);
    assert_string_equal(text_string(&before), text_string(&after));
}

/* Each list of a snapshot is either of the machine or filtered: a stranger sees no item of the
 * others. A new list is hidden until bus-snapshot.c decides, and then it is added here. */
static void test_lists_are_hidden_from_strangers(void **state _unused_)
{
    static const struct {
        const char *name;
        bool is_public;
    } known[] = {{"processes", false},
                 {"gpus", true},
                 {"zombie_pids", false},
                 {"job_progress", false},
                 {"jobs", false}};
    const struct bus_view stranger = {.uid = 4711};
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    _cleanup_text_ struct text out = {0};
    size_t count = 0;

    for (size_t i = 0; i < snapshot_record.field_count; i++) {
        const struct field *field = &snapshot_record.fields[i];
        if (field->type < FIELD_RECORDS)
            continue;
        /* record_encode_part() filters no other lists */
        assert_true(field->type == FIELD_RECORDS || field->type == FIELD_INTS);
        struct any_list *list = (struct any_list *)(void *)((char *)snapshot + field->offset);
        size_t size = field->record ? field->record->size : sizeof(int64_t);
        list->items = memset(arena_alloc(&snapshot->arena, size), 0, size);
        list->count = 1;
        count++;
    }
    assert_int_equal(count, ARRAY_SIZE(known));
    bus_encode_snapshot(snapshot, &stranger, owner_of, NULL, &out);
    json_t *json = json_loads(text_string(&out), 0, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        assert_int_equal(json_array_size(json_object_get(json, known[i].name)), known[i].is_public);
    json_decref(json);
}

/* Job names are separate for each user. */
static void test_progress_of_a_job_with_the_same_name(void **state _unused_)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < 2; i++)
        snapshot->jobs.items[i].job_id = snapshot->job_progress.items[i].job_id = "build";
    snapshot->job_progress.items[1].status = "deploying";
    bus_encode_snapshot(snapshot, &(struct bus_view){.uid = 1000}, owner_of, NULL, &out);
    assert_null(strstr(text_string(&out), "deploying"));
    assert_null(strstr(text_string(&out), "run-b"));
    text_done(&out);
    bus_encode_snapshot(snapshot, &(struct bus_view){.uid = 1001}, owner_of, NULL, &out);
    assert_non_null(strstr(text_string(&out), "deploying"));
}

static void test_view_without_owners(void **state _unused_)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    _cleanup_text_ struct text out = {0};

    bus_encode_snapshot(snapshot, &(struct bus_view){.uid = 1000}, NULL, NULL, &out);
    assert_null(strstr(text_string(&out), "\"pid\":12,"));
    assert_non_null(strstr(text_string(&out), "\"pid\":11,"));
}

static void test_snapshot_is_encoded_once_a_view(void **state _unused_)
{
    enum { SUBSCRIBERS = 100, PROCESSES = 1000 };
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    size_t asked = 0;

    struct process_metric *processes =
        arena_alloc(&snapshot->arena, PROCESSES * sizeof(*processes));
    for (size_t i = 0; i < PROCESSES; i++)
        set_process(&processes[i], (int64_t)i + 1, 1000, "job-b", "run-b");
    snapshot->processes = (struct process_list){processes, PROCESSES};
    for (size_t i = 0; i < SUBSCRIBERS; i++)
        listener_new("monitor.*", &(struct bus_view){.uid = 1001});
    struct listener *ada = listener_new("*", &(struct bus_view){.uid = 1002});
    struct listener *deaf = listener_new("job.*", &all);

    bus_publish_snapshot(bus, snapshot, owner_of, &asked);
    for (size_t i = 0; i < SUBSCRIBERS; i++) {
        assert_int_equal(listeners[i]->count, 1);
        assert_ptr_equal(listeners[i]->seen[0], listeners[0]->seen[0]);
    }
    assert_int_equal(asked, 2 * PROCESSES); /* once for each of two views */
    assert_int_equal(ada->count, 1);
    assert_int_equal(deaf->count, 0);
    assert_non_null(strstr(ada->json[0], "{\"event\":\"monitor.snapshot\",\"timestamp\":"));
}

static void test_views_that_differ_in_name_only(void **state _unused_)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    char job[] = "job-a";
    const struct bus_view views[] = {
        {.sees_all = true, .uid = 1}, {.sees_all = true, .uid = 2}, {.uid = 1000, .job = "job-a"},
        {.uid = 1000, .job = job},    {.uid = 1000, .job = "b"},    {.uid = 1000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(views); i++)
        listener_new("*", &views[i])->returns = 1; /* so that none is freed before all are there */
    job[0] = 'x';                                  /* it was copied */
    bus_publish_snapshot(bus, snapshot, owner_of, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(views); i++)
        listeners[i]->returns = 0;
    bus_publish_snapshot(bus, snapshot, owner_of, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(views); i++)
        bus_resume(bus, listeners[i]->subscriber);
    assert_ptr_equal(listeners[0]->seen[0], listeners[1]->seen[0]);
    assert_ptr_equal(listeners[2]->seen[0], listeners[3]->seen[0]);
    assert_ptr_not_equal(listeners[0]->seen[0], listeners[2]->seen[0]);
    assert_ptr_not_equal(listeners[2]->seen[0], listeners[4]->seen[0]);
    assert_ptr_not_equal(listeners[2]->seen[0], listeners[5]->seen[0]);
}

static void test_nothing_is_encoded_without_listeners(void **state _unused_)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    size_t asked = 0;

    listener_new("job.*", &(struct bus_view){.uid = 1000});
    struct listener *broken = listener_new("*", &(struct bus_view){.uid = 1000});
    broken->returns = -EIO;
    for (int i = 0; i < BUS_FAILURES_MAX; i++)
        publish("a", 1000);
    bus_publish_snapshot(bus, snapshot, owner_of, &asked);
    assert_int_equal(asked, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_envelope),
        TEST(test_patterns),
        TEST(test_refused_patterns),
        TEST(test_several_patterns_give_an_event_once),
        TEST(test_events_are_filtered_by_user),
        TEST(test_event_that_is_held_outlives_its_queue),
        TEST(test_waiting_subscriber_loses_its_oldest_events),
        TEST(test_event_that_was_not_accepted_is_repeated),
        TEST(test_bytes_of_a_queue),
        TEST(test_bytes_of_a_user),
        TEST(test_ring_wraps_around),
        TEST(test_failing_subscriber_is_disabled),
        TEST(test_queue_of_a_disabled_subscriber_is_lost),
        cmocka_unit_test(test_unsubscribing_another_during_an_event),
        TEST(test_unsubscribing_with_a_full_queue),
        TEST(test_publishing_during_an_event_keeps_the_order),
        TEST(test_unsubscribed_during_an_event_gets_nothing_more),
        TEST(test_queue_that_fills_during_an_event),
        TEST(test_views_of_a_snapshot),
        TEST(test_lists_are_hidden_from_strangers),
        TEST(test_progress_of_a_job_with_the_same_name),
        TEST(test_view_without_owners),
        TEST(test_snapshot_is_encoded_once_a_view),
        TEST(test_views_that_differ_in_name_only),
        TEST(test_nothing_is_encoded_without_listeners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
