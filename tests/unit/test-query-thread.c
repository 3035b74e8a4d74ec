/* Queries to the store from the loop of a daemon: in which order they run, and how a query is
 * cancelled. */
#include "unit.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "daemon/query-thread.h"
#include "store-world.h"

#define PATIENCE (20 * NS_PER_SEC)

static uv_loop_t loop;
static struct query_thread *thread;
static char order[64]; /* of the answers: a letter for each */
static atomic_bool is_released;

struct asking {
    struct query query;
    struct answer answer;
    char letter;
    bool is_answered;
    bool was_asked;
    int result;
};

static int set_up(void **state)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    memset(order, 0, sizeof(order));
    is_released = false;
    int r = store_fixture_set_up(state);
    struct store_fixture *fixture = *state;
    assert_int_equal(store_close(fixture_open(fixture)), 0);
    assert_int_equal(query_thread_start(&loop, NULL, fixture->path, &thread), 0);
    return r;
}

static int tear_down(void **state)
{
    query_thread_stop(thread);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return store_fixture_tear_down(state);
}

static void on_done(void *context)
{
    struct asking *asking = context;

    asking->is_answered = true;
    order[strlen(order)] = asking->letter;
}

static struct asking *asking_of(struct query *query)
{
    return (struct asking *)query; /* its first member */
}

static void ask_until_released(struct query *query)
{
    asking_of(query)->was_asked = true;
    while (!is_released)
        ;
}

static void ask_until_it_fails(struct query *query)
{
    const struct job_filter all = JOB_FILTER_ALL;
    struct asking *asking = asking_of(query);
    struct job_list jobs;

    asking->was_asked = true;
    while ((asking->result = store_read_jobs(query->reader, &all, &query->arena, &jobs)) == 0)
        ;
}

static void ask(struct asking *asking, char letter, uid_t uid, query_fn fn)
{
    *asking = (struct asking){.letter = letter,
                              .query = {.peer = {.uid = uid},
                                        .execute = fn,
                                        .answer = &asking->answer,
                                        .on_done = on_done,
                                        .context = asking}};
    query_thread_submit(thread, &asking->query);
}

static void await(const struct asking *asking)
{
    uint64_t until = clock_mono_ns() + PATIENCE;

    while (!asking->is_answered && clock_mono_ns() < until)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(asking->is_answered);
}

static void test_users_take_turns(void **state _unused_)
{
    struct asking many[3], other;

    for (int i = 0; i < 3; i++)
        ask(&many[i], (char)('a' + i), 1000, ask_until_released);
    ask(&other, 'x', 1001, ask_until_released);
    is_released = true;
    await(&many[2]);
    assert_string_equal(order, "axbc");
}

static void test_queue_is_limited_per_user(void **state _unused_)
{
    const struct peer one = {.uid = 1000}, two = {.uid = 1001},
                      root = {.uid = 1000, .sees_all = true};
    struct asking asked[QUERY_THREAD_WAITING_PER_USER + 1];

    ask(&asked[0], 'a', 1000, ask_until_released); /* this one does not wait */
    for (size_t i = 1; i < ARRAY_SIZE(asked); i++) {
        assert_true(query_thread_has_room(thread, &one));
        ask(&asked[i], 'a', 1000, NULL);
    }
    assert_false(query_thread_has_room(thread, &one));
    assert_true(query_thread_has_room(thread, &two));
    assert_true(query_thread_has_room(thread, &root));
    for (size_t i = 1; i < ARRAY_SIZE(asked); i++)
        query_thread_cancel(thread, &asked[i].query);
    is_released = true;
    await(&asked[0]);
}

static void test_waiting_query_is_cancelled_at_once(void **state _unused_)
{
    struct asking first, second;

    ask(&first, 'a', 1000, ask_until_released);
    ask(&second, 'b', 1000, ask_until_released);
    query_thread_cancel(thread, &second.query);
    assert_true(second.is_answered);
    assert_false(first.is_answered);
    is_released = true;
    await(&first);
    assert_false(second.was_asked);
    assert_string_equal(order, "ba");
}

/* The query would run for ever. */
static void test_running_query_is_interrupted(void **state _unused_)
{
    uint64_t until = clock_mono_ns() + PATIENCE;
    struct asking first;

    ask(&first, 'a', 1000, ask_until_it_fails);
    while (!first.is_answered && clock_mono_ns() < until) {
        query_thread_cancel(thread, &first.query); /* it may be between two calls */
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_true(first.is_answered);
    assert_true(first.was_asked);
    assert_true(first.result < 0);
}

static void test_waiting_queries_fail_at_the_end(void **state)
{
    struct asking first, second;

    ask(&first, 'a', 1000, ask_until_released);
    ask(&second, 'b', 1000, ask_until_released);
    is_released = true;
    query_thread_stop(thread);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "ab");
    assert_int_equal(first.answer.error, 0);
    assert_false(second.was_asked);
    assert_int_equal(second.answer.error, RPC_SHUTTING_DOWN);
    assert_int_equal(
        query_thread_start(&loop, NULL, ((struct store_fixture *)*state)->path, &thread), 0);
}

static void test_missing_database(void **state)
{
    struct store_fixture *fixture = *state;
    struct asking first;

    assert_int_equal(unlink(fixture->path), 0);
    ask(&first, 'a', 1000, ask_until_it_fails);
    await(&first);
    assert_false(first.was_asked);
    assert_int_not_equal(first.answer.error, 0);
    assert_non_null(strstr(first.answer.message, fixture->path));
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_users_take_turns),
        T(test_queue_is_limited_per_user),
        T(test_waiting_query_is_cancelled_at_once),
        T(test_running_query_is_interrupted),
        T(test_waiting_queries_fail_at_the_end),
        T(test_missing_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
