/* A finished snapshot is shared by threads; the last reference frees it. The sanitizers check that
 * nothing is left, freed twice, or read afterwards. */
#include "model/snapshot.h"

#include <pthread.h>
#include <string.h>

#include "base/macros.h"
#include "model/tick-box.h"
#include "unit.h"

enum { THREADS = 8, ROUNDS = 2000 };

static struct snapshot *make_snapshot(void)
{
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    snapshot->host = arena_strdup(&snapshot->arena, "host.example");
    return snapshot;
}

static void test_last_reference_frees(void **state _unused_)
{
    const struct snapshot *snapshot = make_snapshot();
    struct tick_box *box = tick_box_new();

    box->tick.snapshot = snapshot_ref(snapshot);
    snapshot_unref(snapshot);
    assert_string_equal(box->tick.snapshot->host, "host.example");
    const struct snapshot *latest = snapshot_ref(box->tick.snapshot);
    tick_box_free(box);
    assert_string_equal(latest->host, "host.example");
    snapshot_unref(latest);
    snapshot_unref(NULL);
}

static void *read_and_drop(void *data)
{
    const struct snapshot *snapshot = data;

    for (int i = 0; i < ROUNDS; i++) {
        const struct snapshot *own = snapshot_ref(snapshot);
        if (strcmp(own->host, "host.example") != 0)
            return data;
        snapshot_unref(own);
    }
    snapshot_unref(snapshot); /* that of this thread */
    return NULL;
}

static void test_threads_share(void **state _unused_)
{
    struct snapshot *snapshot = make_snapshot();
    pthread_t threads[THREADS];
    void *wrong;

    for (size_t i = 0; i < THREADS; i++)
        snapshot_ref(snapshot);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_and_drop, snapshot), 0);
    snapshot_unref(snapshot);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_reference_frees),
        cmocka_unit_test(test_threads_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
