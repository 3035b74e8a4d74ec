/* Every allocation on the way from readings to JSON and back fails once, and then all from it on:
 * each time an error comes back, nothing crashes, nothing leaks (under ASan), and the next attempt
 * works. Linked with -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/record-json.h"
#include "sample/collector.h"

static bool is_failing;     /* whether allocations may fail now */
static bool fails_for_good; /* not only once */
static long countdown;      /* allocations until the one that fails */

static bool fails(void)
{
    if (!is_failing)
        return false;
    countdown--;
    return countdown == 0 || (fails_for_good && countdown < 0);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : __real_realloc(pointer, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static enum probe_depth deeply(void *context _unused_, pid_t pid _unused_, pid_t ppid _unused_,
                               uint64_t start _unused_)
{
    return PROBE_EXTRAS;
}

static int snapshot_of_fixture(struct registry *registry, struct snapshot **ret)
{
    const struct collector_options options = {.proc_root = FIXTURES "/proc-basic",
                                              .cgroup_root = FIXTURES "/cgroup-v2",
                                              .registry = registry};
    const struct collect_request request = {.depth = deeply, .scope = SCOPE_JOBS};
    _cleanup_(collector_freep) struct collector *collector = NULL;
    _cleanup_(snapshot_freep) struct snapshot *first = NULL;
    struct moment moment;

    int r = collector_new(&options, &collector);
    if (r == 0)
        r = collector_take(collector, &request, &first, &moment);
    return r < 0 ? r : collector_take(collector, &request, ret, &moment);
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

static int everything(void)
{
    _cleanup_(registry_freep) struct registry *registry = NULL;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    struct run *run;

    int r = registry_new(&registry);
    if (r == 0)
        r = registry_add_run(registry, "run", "job", 1, &run);
    if (r == 0)
        r = registry_add(registry, run, 100);
    if (r == 0)
        r = snapshot_of_fixture(registry, &snapshot);
    return r < 0 ? r : round_trip(snapshot);
}

static void fail_each(bool for_good)
{
    long site = 0;
    int r;

    do {
        countdown = ++site;
        fails_for_good = for_good;
        is_failing = true;
        r = everything();
        is_failing = false;
        assert_true(r == 0 || r == -ENOMEM);
        /* Some are made good: a list that is only scratch, opendir's own buffer. */
    } while (countdown <= 0);
    assert_int_equal(r, 0); /* the last round met no failure */
    assert_true(site > 50); /* and there were sites to fail at */
}

static void test_each_allocation_fails_once(void **state _unused_)
{
    fail_each(false);
}

static void test_all_fail_from_each_allocation_on(void **state _unused_)
{
    fail_each(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_all_fail_from_each_allocation_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
