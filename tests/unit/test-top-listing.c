/* The rows of `sonde top`: order, groups, trees, folds, filters. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "top-world.h"
#include "top/trails.h"

static const struct field *field(const char *name)
{
    return record_find(&process_metric_record, name);
}

static struct listing_request wish_of(enum arrangement arrangement, const char *sort,
                                      const struct key_set *folded)
{
    return (struct listing_request){
        .arrangement = arrangement, .sort = field(sort), .filter = "", .folded = folded};
}

/* The rows as "job nightly|sheet 3|111|…", indented by depth. */
static const char *describe(const struct listing *listing, struct text *out)
{
    text_reset(out);
    for (size_t i = 0; i < listing->rows.count; i++) {
        const struct row *row = &listing->rows.items[i];
        text_append_repeated(out, '>', row->depth);
        if (row->kind == ROW_PROCESS)
            text_printf(out, "%lld", (long long)row->figures->pid);
        else if (row->kind == ROW_JOB)
            text_append_string(out, row->job->job_id);
        else if (row->kind == ROW_SHEET)
            text_printf(out, "sheet%lld", (long long)row->sheet_num);
        else
            text_append_string(out, "others");
        text_append_string(out, row->is_folded ? "+ " : " ");
    }
    return text_string(out);
}

static void assert_rows(const struct frame *frame, const struct listing_request *request,
                        const char *expected)
{
    _cleanup_text_ struct text out = {0};
    struct listing listing = {0};

    assert_int_equal(listing_build(&listing, frame, request), 0);
    assert_string_equal(describe(&listing, &out), expected);
    listing_done(&listing);
}

static void test_by_job(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    assert_rows(&world.frame, &request,
                "nightly >sheet3 >>111 >>112 >>110 >100 backup >200 others >300 >1 >301 ");
    request.is_ascending = true;
    assert_rows(&world.frame, &request,
                "backup >200 nightly >sheet3 >>110 >>112 >>111 >100 others >1 >301 >300 ");
    request = wish_of(BY_JOB, "pid", &none);
    assert_rows(&world.frame, &request,
                "backup >200 nightly >sheet3 >>110 >>111 >>112 >100 others >1 >300 >301 ");
    request = wish_of(BY_JOB, "command", &none);
    assert_rows(&world.frame, &request,
                "backup >200 nightly >sheet3 >>112 >>111 >>110 >100 others >1 >301 >300 ");
    top_world_done(&world);
}

static void test_tree_and_list(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct listing_request request = wish_of(AS_TREE, "cpu_percent", &none);
    assert_rows(&world.frame, &request,
                "nightly >sheet3 >>110 >>>111 >>>112 >100 backup >200 others >1 >>300 >>>301 ");
    request = wish_of(AS_LIST, "rss_mb", &none);
    assert_rows(&world.frame, &request, "111 200 112 100 1 300 301 110 ");
    top_world_done(&world);
}

static void test_without_jobs_there_are_no_groups(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_process(&world, 1, 0, "init", 0, 1);
    add_process(&world, 2, 1, "sh", 3, 1);
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    assert_rows(&world.frame, &request, "2 1 ");
    request.arrangement = AS_TREE;
    assert_rows(&world.frame, &request, "1 >2 ");
    top_world_done(&world);
}

static void test_a_job_without_processes_is_shown(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_job_usage(&world, "known", REAL_UNKNOWN, REAL_UNKNOWN);
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    assert_rows(&world.frame, &request, "known ");
    top_world_done(&world);
}

static void test_folds(void **state)
{
    struct key_set folded = {0};
    struct listing listing = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct listing_request request = wish_of(AS_TREE, "cpu_percent", &folded);
    assert_int_equal(listing_build(&listing, &world.frame, &request), 0);
    uint64_t job = listing.rows.items[0].key, sheet = listing.rows.items[1].key,
             shell = listing.rows.items[2].key;
    assert_int_equal(key_set_toggle(&folded, shell), 0);
    assert_rows(&world.frame, &request,
                "nightly >sheet3 >>110+ >100 backup >200 others >1 >>300 >>>301 ");
    assert_int_equal(key_set_toggle(&folded, sheet), 0);
    assert_rows(&world.frame, &request,
                "nightly >sheet3+ >100 backup >200 others >1 >>300 >>>301 ");
    assert_int_equal(key_set_toggle(&folded, job), 0);
    assert_rows(&world.frame, &request, "nightly+ backup >200 others >1 >>300 >>>301 ");
    assert_int_equal(key_set_toggle(&folded, job), 0);
    assert_int_equal(key_set_toggle(&folded, sheet), 0);
    assert_int_equal(key_set_toggle(&folded, shell), 0);
    assert_rows(&world.frame, &request,
                "nightly >sheet3 >>110 >>>111 >>>112 >100 backup >200 others >1 >>300 >>>301 ");
    listing_done(&listing);
    key_set_done(&folded);
    top_world_done(&world);
}

static void test_filter(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    request.filter = "PYTHON";
    assert_rows(&world.frame, &request, "nightly >sheet3 >>111 >>112 ");
    request.filter = "backup";
    assert_rows(&world.frame, &request, "backup >200 ");
    request.filter = "301";
    assert_rows(&world.frame, &request, "others >301 ");
    request.filter = "no such thing";
    assert_rows(&world.frame, &request, "");
    /* A child whose parent is filtered out is shown alone. */
    request = wish_of(AS_TREE, "cpu_percent", &none);
    request.filter = "bash";
    assert_rows(&world.frame, &request, "others >301 ");
    top_world_done(&world);
}

static void test_figures_of_groups(void **state)
{
    struct key_set none = {0};
    struct listing listing = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    assert_int_equal(listing_build(&listing, &world.frame, &request), 0);
    const struct row *job = &listing.rows.items[0], *sheet = &listing.rows.items[1];
    const struct row *train = &listing.rows.items[2];
    /* The figures of a job come from its ledger and include ended children; those of a step are a
     * sum. */
    assert_true(job->figures->cpu_percent == 120);
    assert_true(job->figures->cpu_seconds == 12.5);
    assert_int_equal(job->processes, 4);
    assert_true(sheet->figures->cpu_percent == 120);
    assert_true(sheet->figures->rss_mb == 480);
    assert_int_equal(sheet->processes, 3);
    assert_int_equal(sheet->figures->threads, 3);
    assert_non_null(job->alarm);
    assert_non_null(train->alarm);
    assert_null(sheet->alarm);
    assert_int_equal(job->progress->total_sheets, 5);
    listing_done(&listing);
    top_world_done(&world);
}

/* Each user has its own names: two jobs of the same name have separate progress. */
static void test_progress_of_jobs_with_the_same_name(void **state)
{
    struct key_set none = {0};
    struct listing listing = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_job_usage(&world, "nightly", 20, 1)->run_id = "a";
    add_job_usage(&world, "nightly", 10, 1)->run_id = "b";
    add_job_usage(&world, "nightly", 5, 1)->run_id = "c";
    add_progress(&world, "nightly", 1, 7)->run_id = "b";
    add_progress(&world, "nightly", 2, 5)->run_id = "a";
    struct listing_request request = wish_of(BY_JOB, "cpu_percent", &none);
    assert_int_equal(listing_build(&listing, &world.frame, &request), 0);
    assert_int_equal(listing.rows.items[0].progress->total_sheets, 5);
    assert_int_equal(listing.rows.items[1].progress->total_sheets, 7);
    assert_null(listing.rows.items[2].progress);
    listing_done(&listing);
    top_world_done(&world);
}

/* A cycle of parents (possible with equal start times), a process that is its own parent, a chain
 * deeper than any screen: every process is listed once. */
static void test_cycles_and_deep_chains_of_parents(void **state)
{
    struct key_set none = {0};
    struct listing listing = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_process(&world, 10, 11, "a", 0, 1);
    add_process(&world, 11, 12, "b", 0, 1);
    add_process(&world, 12, 10, "c", 0, 1);
    add_process(&world, 13, 13, "d", 0, 1);
    add_process(&world, 14, 9999, "e", 0, 1)->start_time = REAL_UNKNOWN;
    for (int64_t i = 0; i < 3 * LISTING_DEPTH_MAX; i++)
        add_process(&world, 1000 + i, 999 + i, "deep", 0, 1);
    struct listing_request request = wish_of(AS_TREE, "cpu_percent", &none);
    assert_int_equal(listing_build(&listing, &world.frame, &request), 0);
    assert_int_equal(listing.rows.count, world.snapshot->processes.count);
    for (size_t i = 0; i < listing.rows.count; i++)
        for (size_t k = i + 1; k < listing.rows.count; k++)
            assert_int_not_equal(listing.rows.items[i].figures->pid,
                                 listing.rows.items[k].figures->pid);
    listing_done(&listing);
    top_world_done(&world);
}

/* A younger process with the pid of a parent that has gone is no parent. */
static void test_younger_process_is_no_parent(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_process(&world, 20, 1, "stranger", 5, 1)->start_time += 50;
    add_process(&world, 21, 20, "orphan", 0, 1);
    struct listing_request request = wish_of(AS_TREE, "cpu_percent", &none);
    assert_rows(&world.frame, &request, "20 21 ");
    top_world_done(&world);
}

static void test_unknown_comes_last(void **state)
{
    struct key_set none = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    add_process(&world, 1, 0, "a", REAL_UNKNOWN, 1);
    add_process(&world, 2, 0, "b", 0, 1);
    add_process(&world, 3, 0, NULL, 5, REAL_UNKNOWN);
    struct listing_request request = wish_of(AS_LIST, "cpu_percent", &none);
    assert_rows(&world.frame, &request, "3 2 1 ");
    request = wish_of(AS_LIST, "rss_mb", &none);
    assert_rows(&world.frame, &request, "1 2 3 ");
    request = wish_of(AS_LIST, "command", &none);
    assert_rows(&world.frame, &request, "1 2 3 ");
    top_world_done(&world);
}

static void test_keys_are_those_of_processes(void **state)
{
    struct process_metric a = {.pid = 7, .start_time = 1000.00},
                          b = {.pid = 7, .start_time = 1000.01}, c = a;
    (void)state;

    c.cpu_percent = 50;
    assert_int_equal(listing_process_key(&a), listing_process_key(&c));
    assert_int_not_equal(listing_process_key(&a), listing_process_key(&b));
    assert_int_not_equal(listing_job_key("x", NULL), listing_job_key("y", NULL));
}

/* ---- recent figures ---- */

static void test_trails(void **state)
{
    struct trails trails = {0};
    struct top_world world;
    (void)state;

    top_world_init(&world);
    top_world_fill(&world);
    struct process_metric *train = &world.snapshot->processes.items[2];
    uint64_t key = listing_process_key(train);
    uint64_t sheet = listing_sheet_key(listing_job_key("nightly", NULL), 3);
    for (int i = 0; i < 3 * TRAIL_POINTS; i++) {
        train->cpu_percent = i;
        trails_add(&trails, world.snapshot);
    }
    const struct trail *trail = trails_find(&trails, key);
    assert_non_null(trail);
    for (unsigned i = 0; i < TRAIL_POINTS; i++)
        assert_true(trail_cpu(trail, i) == 3 * TRAIL_POINTS - 1 - (double)i);
    assert_false(real_is_known(trail_cpu(trail, TRAIL_POINTS)));
    assert_true(trail_mb(trail, 0) == 450);
    /* The figure of a step is the sum of its three processes. */
    assert_true(trail_cpu(trails_find(&trails, sheet), 0) == 3 * TRAIL_POINTS - 1 + 1);
    assert_true(trail_mb(trails_find(&trails, sheet), 0) == 480);
    assert_non_null(trails_find(&trails, listing_job_key("nightly", NULL)));
    assert_false(real_is_known(trail_cpu(NULL, 0)));

    /* Ended processes are dropped, but not at once. */
    world.snapshot->processes.count = 0;
    world.snapshot->jobs.count = 1;
    trails_add(&trails, world.snapshot);
    assert_null(trails_find(&trails, key));
    trails_clear(&trails);
    assert_null(trails_find(&trails, listing_job_key("nightly", NULL)));
    trails_done(&trails);
    top_world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_job),
        cmocka_unit_test(test_tree_and_list),
        cmocka_unit_test(test_without_jobs_there_are_no_groups),
        cmocka_unit_test(test_a_job_without_processes_is_shown),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_figures_of_groups),
        cmocka_unit_test(test_progress_of_jobs_with_the_same_name),
        cmocka_unit_test(test_cycles_and_deep_chains_of_parents),
        cmocka_unit_test(test_younger_process_is_no_parent),
        cmocka_unit_test(test_unknown_comes_last),
        cmocka_unit_test(test_keys_are_those_of_processes),
        cmocka_unit_test(test_trails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
