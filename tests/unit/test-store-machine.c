/* store_read_machine() against figures computed from the written snapshots. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"

#define TICKS 150

/* A machine whose CPU times never decrease. */
static void write_all(struct store *store, struct world *world, struct written *written)
{
    double cpu[WORLD_PIDS] = {0};
    uint64_t starts[WORLD_PIDS] = {0};

    while (written->count < TICKS) {
        struct snapshot *snapshot = world_tick(world);
        for (size_t i = 0; i < snapshot->processes.count; i++) {
            struct process_metric *process = &snapshot->processes.items[i];
            size_t at = (size_t)process->pid - 100;
            if (starts[at] != process->start_ticks)
                cpu[at] = 0;
            starts[at] = process->start_ticks;
            if (random_once_in(&world->random, 2))
                cpu[at] += (double)random_below(&world->random, 3000) / 1000;
            process->cpu_seconds = cpu[at];
        }
        written_add(written, snapshot);
        write_snapshot(store, snapshot);
    }
}

static const struct process_metric *find(const struct snapshot *snapshot,
                                         const struct process_metric *like)
{
    for (size_t i = 0; i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == like->pid &&
            snapshot->processes.items[i].start_ticks == like->start_ticks)
            return &snapshot->processes.items[i];
    return NULL;
}

/* One process in the snapshots from..to. Its CPU time counts from the previous snapshot, from its
 * start, or from its first sample. */
static struct process_use compute_use(const struct written *written, size_t from, size_t to,
                                      const struct process_metric *like)
{
    const struct process_metric *before = from ? find(written->items[from - 1], like) : NULL;
    double first = REAL_UNKNOWN, last = REAL_UNKNOWN;
    struct process_use use = {.pid = like->pid, .max_rss_mb = REAL_UNKNOWN};

    for (size_t i = from; i <= to; i++) {
        const struct process_metric *process = find(written->items[i], like);
        if (!process)
            continue;
        use.command = process->command;
        use.job_id = process->job_id;
        use.max_rss_mb = fmax(use.max_rss_mb, process->rss_mb);
        first = isnan(first) ? process->cpu_seconds : first;
        last = process->cpu_seconds;
    }
    if (before)
        first = before->cpu_seconds;
    else if (like->start_time >= written->items[from]->timestamp)
        first = 0;
    use.cpu_seconds = last - first;
    return use;
}

static bool is_same_use(const struct process_use *a, const struct process_use *b)
{
    return a->pid == b->pid && is_same_text(a->command, b->command) &&
           is_same_text(a->job_id, b->job_id) && fabs(a->cpu_seconds - b->cpu_seconds) < 0.0015 &&
           (isnan(a->max_rss_mb) ? isnan(b->max_rss_mb)
                                 : fabs(a->max_rss_mb - b->max_rss_mb) < 0.003);
}

static void check_processes(const struct written *written, size_t from, size_t to,
                            const struct process_use_list *found)
{
    size_t count = 0;

    for (size_t i = from; i <= to; i++)
        for (size_t k = 0; k < written->items[i]->processes.count; k++) {
            const struct process_metric *process = &written->items[i]->processes.items[k];
            bool is_seen = false, is_found = false;
            for (size_t earlier = from; earlier < i; earlier++)
                is_seen |= find(written->items[earlier], process) != NULL;
            if (is_seen)
                continue;
            struct process_use use = compute_use(written, from, to, process);
            for (size_t at = 0; at < found->count; at++)
                is_found |= is_same_use(&use, &found->items[at]);
            if (!is_found) {
                for (size_t at = 0; at < found->count; at++)
                    if (found->items[at].pid == use.pid)
                        print_error("found: %f s, %f MB, %s\n", found->items[at].cpu_seconds,
                                    found->items[at].max_rss_mb, found->items[at].job_id);
                fail_msg("%zu to %zu: pid %d with %f s, %f MB, %s is not there", from, to,
                         (int)use.pid, use.cpu_seconds, use.max_rss_mb, use.job_id);
            }
            count++;
        }
    assert_int_equal(found->count, count);
}

static void add(struct use_range *range, double *count, double value)
{
    if (isnan(value))
        return;
    range->min = fmin(range->min, value);
    range->max = fmax(range->max, value);
    range->mean += (value - range->mean) / ++*count;
}

static void check_range(const struct written *written, size_t from, size_t to, const char *name,
                        const struct use_range *found)
{
    const struct field *field = record_find(&snapshot_record, name);
    struct use_range range = {.min = REAL_UNKNOWN, .max = REAL_UNKNOWN};
    double count = 0;

    for (size_t i = from; i <= to; i++)
        add(&range, &count, *(const double *)((const char *)written->items[i] + field->offset));
    if (count == 0) {
        assert_true(isnan(found->min) && isnan(found->mean) && isnan(found->max));
        return;
    }
    assert_true(fabs(range.min - found->min) <= 0.01);
    assert_true(fabs(range.max - found->max) <= 0.01);
    assert_true(fabs(range.mean - found->mean) <= 0.01);
}

static void check(const struct store_fixture *fixture, const struct written *written, size_t from,
                  size_t to)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct arena arena = {0};
    struct machine_use use;

    assert_int_equal(store_read_machine(reader, written->items[from]->timestamp - 0.0001,
                                        written->items[to]->timestamp + 0.0001, 1000, &arena, &use),
                     0);
    assert_int_equal(use.samples, to - from + 1);
    assert_true(fabs(use.first - written->items[from]->timestamp) < 0.001);
    assert_true(fabs(use.last - written->items[to]->timestamp) < 0.001);
    check_range(written, from, to, "system_cpu_percent", &use.system_cpu_percent);
    check_range(written, from, to, "system_memory_used_mb", &use.system_memory_used_mb);
    check_range(written, from, to, "load_avg_1", &use.load_avg_1);
    check_processes(written, from, to, &use.processes);
    arena_done(&arena);
}

static void test_any_range_of_time(void **state)
{
    struct written written = {0};
    struct world world;

    world_init_tame(&world, 101);
    struct store *store = fixture_open(*state);
    write_all(store, &world, &written);
    for (int closed = 0; closed < 2; closed++) {
        check(*state, &written, 0, TICKS - 1);
        check(*state, &written, TICKS - 1, TICKS - 1);
        for (size_t i = 0; i < 40; i++) {
            size_t from = random_below(&world.random, TICKS);
            check(*state, &written, from, from + random_below(&world.random, TICKS - from));
        }
        if (!closed)
            assert_int_equal(store_close(store), 0);
    }
    written_done(&written);
    world_done(&world);
}

/* Minutes are less precise at the bounds, but must belong to the range. */
static void test_ranges_of_minutes(void **state)
{
    struct store_fixture *fixture = *state;
    struct arena arena = {0};
    struct written written = {0};
    struct machine_use use;
    struct world world;

    world_init_tame(&world, 96);
    struct store *store = fixture_open(fixture);
    write_all(store, &world, &written);
    assert_int_equal(store_close(store), 0);
    store = fixture_open(fixture);
    assert_int_equal(store_retain(store, world.now + 25 * 3600), 0);
    assert_int_equal(store_close(store), 0);

    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_machine(reader, 0, world.now, 1000, &arena, &use), 0);
    assert_in_range(use.samples, 8, 16);
    struct process_use_list *found = &use.processes;
    /* over all of it nothing is lost */
    for (size_t i = 0; i < TICKS; i++)
        for (size_t k = 0; k < written.items[i]->processes.count; k++) {
            struct process_use expected =
                compute_use(&written, 0, TICKS - 1, &written.items[i]->processes.items[k]);
            bool is_found = false;
            for (size_t at = 0; at < found->count; at++)
                is_found |= found->items[at].pid == expected.pid &&
                            (isnan(expected.max_rss_mb) ||
                             fabs(found->items[at].max_rss_mb - expected.max_rss_mb) < 0.003);
            if (!is_found) {
                for (size_t at = 0; at < found->count; at++)
                    if (found->items[at].pid == expected.pid)
                        print_error("found: %f s, %f MB\n", found->items[at].cpu_seconds,
                                    found->items[at].max_rss_mb);
                fail_msg("pid %d at %zu: %f s, %f MB", (int)expected.pid, i, expected.cpu_seconds,
                         expected.max_rss_mb);
            }
        }
    store_reader_close(reader);
    arena_done(&arena);
    written_done(&written);
    world_done(&world);
}

static void test_limit_of_processes(void **state)
{
    struct arena arena = {0};
    struct written written = {0};
    struct machine_use use;
    struct world world;

    world_init_tame(&world, 97);
    struct store *store = fixture_open(*state);
    write_all(store, &world, &written);
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(store_read_machine(reader, 0, world.now, 1, &arena, &use), 0);
    assert_in_range(use.processes.count, 1, 2);
    assert_int_equal(store_read_machine(reader, world.now + 1, world.now + 2, 5, &arena, &use), 0);
    assert_int_equal(use.samples, 0);
    assert_int_equal(use.processes.count, 0);
    assert_true(isnan(use.first) && isnan(use.load_avg_1.mean));
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
    written_done(&written);
    world_done(&world);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_any_range_of_time),
        T(test_ranges_of_minutes),
        T(test_limit_of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
