/* Every allocation between readings and JSON fails once, and then all from it on: each time an
 * error is returned, nothing crashes or leaks (under ASan), and the next attempt works. Linked with
 * -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "failing-allocator.h"
#include "jobs/rules.h"
#include "model/job.h"
#include "model/record-json.h"
#include "probe/process-facts.h"
#include "sample/collector.h"
#include "sample/scope.h"

static enum probe_depth deeply(void *context _unused_, const struct process_reading *begun _unused_)
{
    return PROBE_EXTRAS;
}

/* They hide what follows `-j4` and `-c` in the fixture. */
static const char *word_items[] = {"j", "c"};
static const struct text_list words = {word_items, ARRAY_SIZE(word_items)};

static int snapshot_of_fixture(struct registry *registry, struct snapshot **ret)
{
    const struct collector_options options = {.proc_root = FIXTURES "/proc-basic",
                                              .cgroup_root = FIXTURES "/cgroup-v2",
                                              .registry = registry,
                                              .redact = &words};
    const struct collect_request request = {.depth = deeply};
    _cleanup_(collector_freep) struct collector *collector = NULL;
    _cleanup_(snapshot_freep) struct snapshot *first = NULL;
    struct moment moment;

    int r = collector_new(&options, &collector);
    if (r == 0)
        r = collector_take(collector, &request, &first, &moment);
    if (r == 0)
        r = collector_take(collector, &request, ret, &moment);
    return r < 0 ? r : scope_apply(SCOPE_JOBS, &(*ret)->processes, NULL, NULL);
}

static int round_trip(const struct snapshot *snapshot)
{
    _cleanup_text_ struct text text = {0};
    struct json_writer json = {.out = &text};
    struct arena arena = {0};
    struct snapshot decoded;
    struct decode_error error;

    record_encode(&snapshot_record, snapshot, &json);
    int r = text_error(&text);
    if (r == 0)
        r = record_decode(&snapshot_record, text.bytes, text.length, &arena, &decoded, &error);
    arena_done(&arena);
    return r;
}

static int fill_registry(struct registry *registry, struct run **ret_inner)
{
    struct run *outer = NULL;

    int r =
        registry_add_run(registry, &(struct run_options){.run_id = "run", .job_id = "job"}, &outer);
    if (r == 0)
        r = registry_add_run(
            registry, &(struct run_options){.run_id = "in", .job_id = "job", .parent = outer},
            ret_inner);
    if (r == 0)
        r = registry_add(registry, outer, 1, 100);
    if (r == 0)
        r = registry_fork(registry, 100, 102);
    if (r == 0)
        r = registry_add(registry, *ret_inner, INT_UNKNOWN, 102);
    if (r == 0)
        r = registry_adopt(registry, *ret_inner, 2, 103, 5);
    if (r == 0)
        r = registry_set_foster(registry, 100, *ret_inner);
    if (r == 0)
        r = registry_exclude(registry, 105);
    if (r == 0)
        r = registry_begin_sheet(registry, outer, 1, 100);
    if (r < 0)
        return r;
    outer->total_sheets = 2;
    strcpy(outer->status, "busy");
    return 0;
}

DEFINE_CLEANUP(struct registry *, registry_free);

static int everything(void)
{
    _cleanup_(registry_freep) struct registry *registry = NULL;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    struct run *inner;

    int r = registry_new(&registry);
    if (r == 0)
        r = fill_registry(registry, &inner);
    if (r == 0)
        r = snapshot_of_fixture(registry, &snapshot);
    if (r == 0)
        registry_end_run(registry, inner);
    return r < 0 ? r : round_trip(snapshot);
}

static void ignore_child(void *context _unused_, pid_t pid _unused_, pid_t ppid _unused_)
{
}

/* The rules, and the facts of a process that they need. */
static int find_run_of_process(void)
{
    const char *names[] = {"PATH"};
    struct job_rule items[] = {
        {.job_id = "x-{1}", .kind = JOB_RULE_COMMAND, .pattern = "no(t)hing like it"},
        {.job_id = "{PATH}", .kind = JOB_RULE_ENV, .names = {.items = names, .count = 1}},
        {.job_id = "any", .kind = JOB_RULE_COMMAND, .pattern = "."},
    };
    const struct job_rule_list list = {.items = items, .count = ARRAY_SIZE(items)};
    _cleanup_close_ int root_fd = open(FIXTURES "/proc-basic", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(rules_freep) struct rules *rules = NULL;
    struct arena arena = {0};
    struct process_facts facts;
    char job_id[JOB_ID_MAX_BYTES + 1];

    int r = rules_new(&list, &rules);
    if (r == 0)
        r = process_facts_read(root_fd, 103, rules_request(rules), &arena, &facts);
    if (r == 0)
        r = rules_match(rules, &facts, job_id);
    arena_done(&arena);
    if (r < 0)
        return r;
    r = process_descendants_read(root_fd, 103, ignore_child, NULL);
    return r == -ESRCH ? 0 : r; /* the fixture has no threads */
}

static void test_each_allocation_fails_once(void **state _unused_)
{
    fail_each_allocation(everything, false, 50);
    fail_each_allocation(find_run_of_process, false, 7);
}

static void test_all_allocations_fail_from_each_on(void **state _unused_)
{
    fail_each_allocation(everything, true, 50);
    fail_each_allocation(find_run_of_process, true, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_all_allocations_fail_from_each_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
