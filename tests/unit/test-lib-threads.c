/* Many threads, many cycles, forks in the middle: nothing hangs, nothing is left behind. Also built
 * under ThreadSanitizer, see tests/e2e/test_library.py. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "lib-world.h"

#define THREADS    8
#define OWN_CYCLES 200
#define CYCLES     10000
#define FORKS      200

#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
/* AddressSanitizer's allocator has locks that a child finds held by threads that it does not have:
 * what is tested of forks cannot be tested with it. (glibc's allocator releases its locks.) */
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif
/* Neither sanitizer counts bytes as glibc does. */
#if HAS_ASAN || defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "# %s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static int count_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static struct sonde_monitor *fast_monitor(unsigned flags)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;

    options.interval_sec = 0.001;
    options.max_samples = 64;
    options.flags = flags;
    return new_monitor(&options);
}

/* Calls every function that reads from a running monitor. */
static void read_everything(struct sonde_monitor *monitor)
{
    struct sonde_sample *samples;
    struct sonde_phase *phases;
    struct sonde_timing timing;
    size_t count;

    CHECK(sonde_monitor_samples(monitor, &samples, &count) == 0);
    sonde_free(samples);
    CHECK(sonde_monitor_phases(monitor, &phases, &count) == 0);
    sonde_free(phases);
    CHECK(sonde_monitor_timing(monitor, &timing) == 0);
    CHECK(summary_of(monitor).num_samples >= 0);
    sonde_monitor_is_running(monitor);
}

static void *own_monitors(void *number)
{
    for (int i = 0; i < OWN_CYCLES; i++) {
        struct sonde_monitor *monitor = fast_monitor((uintptr_t)number % 2 ? SONDE_DESCENDANTS : 0);
        CHECK(sonde_monitor_start(monitor, NULL) == 0);
        CHECK(sonde_monitor_mark(monitor, "phase", NULL) == 0);
        read_everything(monitor);
        if (i % 2)
            CHECK(sonde_monitor_stop(monitor) == 0);
        sonde_monitor_free(monitor);
    }
    return NULL;
}

static void run_threads(void *(*function)(void *), void *shared)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, function, shared ? shared : (void *)i),
                         0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void test_own_monitors(void **state _unused_)
{
    int before = count_fds();
    run_threads(own_monitors, NULL);
    assert_int_equal(count_fds(), before);
}

/* One monitor for all threads: each call succeeds or returns an error. */
static void *shared_monitor(void *monitor)
{
    for (int i = 0; i < OWN_CYCLES; i++) {
        int r = sonde_monitor_start(monitor, NULL);
        CHECK(r == 0 || r == -EALREADY);
        r = sonde_monitor_mark(monitor, i % 3 ? "phase" : NULL, NULL);
        CHECK(r == 0 || r == -ESRCH || r == -ENOSPC);
        read_everything(monitor);
        CHECK(sonde_monitor_stop(monitor) == 0);
    }
    return NULL;
}

static void test_shared_monitor(void **state _unused_)
{
    struct sonde_monitor *monitor = fast_monitor(SONDE_DESCENDANTS);
    run_threads(shared_monitor, monitor);
    assert_int_equal(sonde_monitor_is_running(monitor), 0);
    sonde_monitor_free(monitor);
}

static void cycle(void)
{
    struct sonde_monitor *monitor = fast_monitor(0);
    CHECK(sonde_monitor_start(monitor, NULL) == 0);
    CHECK(sonde_monitor_stop(monitor) == 0);
    sonde_monitor_free(monitor);
}

static void test_cycles_leak_nothing(void **state _unused_)
{
    for (int i = 0; i < 10; i++)
        cycle(); /* threads leave their stacks to the next */
    int fds = count_fds();
    size_t bytes = mallinfo2().uordblks;
    for (int i = 0; i < CYCLES; i++)
        cycle();
    assert_int_equal(count_fds(), fds);
    if (!IS_SANITIZED)
        assert_int_equal(mallinfo2().uordblks, bytes);
}

/* ---- forks ---- */

/* In a child, the inherited monitor is empty and can be used. */
static void use_in_child(struct sonde_monitor *monitor, bool starts)
{
    CHECK(sonde_monitor_is_running(monitor) == 0);
    CHECK(summary_of(monitor).num_samples == 0);
    read_everything(monitor);
    if (starts) {
        CHECK(sonde_monitor_start(monitor, NULL) == 0);
        char *memory = take_memory(8 * MB);
        AWAIT(summary_of(monitor).num_samples > 3);
        CHECK(sonde_monitor_mark(monitor, "child", NULL) == 0);
        CHECK(sonde_monitor_stop(monitor) == 0);
        CHECK(summary_of(monitor).memory_growth_mb > 7); /* its own memory, not its parent's */
        munmap(memory, 8 * MB);
    }
    CHECK(sonde_monitor_stop(monitor) == 0);
    sonde_monitor_free(monitor);
}

static int read_gpu(void *context, double *ret)
{
    (void)context;
    *ret = 1;
    return 0;
}

static void fork_with(struct sonde_monitor *monitor, bool starts)
{
    int status;

    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* a hang is a failure */
        use_in_child(monitor, starts);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("the child ended with status 0x%x", (unsigned)status);
}

static void fork_storm(unsigned flags, bool with_gpu)
{
    const struct sonde_gpu_source gpu = {.utilization = read_gpu};
    struct sonde_options options = SONDE_OPTIONS_INIT;

    options.interval_sec = 0.001;
    options.flags = flags;
    options.gpu_source = with_gpu ? &gpu : NULL;
    struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    for (int i = 0; i < FORKS; i++)
        fork_with(monitor, i % 20 == 0);
    assert_int_equal(sonde_monitor_is_running(monitor), 1); /* the parent's monitor still runs */
    int64_t taken = summary_of(monitor).num_samples;
    AWAIT(summary_of(monitor).num_samples > taken);
    sonde_monitor_free(monitor);
}

static _unused_ void test_forks(void **state _unused_)
{
    fork_storm(0, false);
    fork_storm(SONDE_DESCENDANTS, false);
    fork_storm(0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_monitors),
        cmocka_unit_test(test_shared_monitor),
        cmocka_unit_test(test_cycles_leak_nothing),
#if !HAS_ASAN
        cmocka_unit_test(test_forks),
#endif
    };
    return cmocka_run_group_tests_name("lib-threads", tests, NULL, NULL);
}
