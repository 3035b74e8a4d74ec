/* The monitor by its public functions, on real processes. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "lib-world.h"

DEFINE_CLEANUP(struct sonde_monitor *, sonde_monitor_free);
#define _cleanup_monitor_ _cleanup_(sonde_monitor_freep)

static struct sonde_options options_of(double interval_sec)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;

    options.interval_sec = interval_sec;
    return options;
}

/* ---- options and errors ---- */

static void test_version(void **state _unused_)
{
    assert_string_equal(sonde_version(), SONDE_VERSION);
}

static void assert_refused(struct sonde_options options, const char *words)
{
    struct sonde_error error = {{0}};
    struct sonde_monitor *monitor = NULL;

    assert_int_equal(sonde_monitor_new(&options, &monitor, &error), -EINVAL);
    assert_null(monitor);
    if (strncmp(error.text, words, strlen(words)) != 0)
        fail_msg("'%s' does not begin with '%s'", error.text, words);
    assert_int_equal(sonde_monitor_new(&options, &monitor, NULL), -EINVAL);
}

static void test_options(void **state _unused_)
{
    static const struct sonde_gpu_source source;
    struct sonde_options options = options_of(0);

    options.size = 4;
    assert_refused(options, "size: 4 ");
    options.size = SIZE_MAX; /* the library reads no more than it knows */
    assert_refused(options, "size: ");
    assert_refused(options_of(0.0009), "interval_sec: 0.0009 is not within 0.001 to 3600");
    assert_refused(options_of(-1), "interval_sec: -1 ");
    assert_refused(options_of(3601), "interval_sec: 3601 ");
    assert_refused(options_of(NAN), "interval_sec: ");
    options = options_of(0);
    options.pid = -5;
    assert_refused(options, "pid: -5 ");
    options = options_of(0);
    options.flags = 0x40 | SONDE_DESCENDANTS;
    assert_refused(options, "flags: 0x40 ");
    options = options_of(0);
    options.max_samples = 15;
    assert_refused(options, "max_samples: 15 is not within 16 to 16777216");
    options = options_of(0);
    options.flags = SONDE_BUILTIN_GPU;
    options.gpu_source = &source;
    assert_refused(options, "gpu_source: ");
}

/* The options of a program that was built with the header of a newer library. */
static void test_newer_options(void **state _unused_)
{
    struct {
        struct sonde_options known;
        uint64_t newer[3];
    } options = {.known = options_of(3600)};
    struct sonde_error error = {{0}};
    struct sonde_monitor *monitor = NULL;

    options.known.size = sizeof(options);
    assert_int_equal(sonde_monitor_new(&options.known, &monitor, &error), 0);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    sonde_monitor_free(monitor);

    monitor = NULL;
    ((unsigned char *)options.newer)[sizeof(options.newer) - 1] = 1;
    assert_int_equal(sonde_monitor_new(&options.known, &monitor, &error), -E2BIG);
    assert_null(monitor);
    assert_non_null(strstr(error.text, "size: an option at byte "));
    options.known.size = sizeof(options.known); /* the rest is not part of the options */
    assert_int_equal(sonde_monitor_new(&options.known, &monitor, &error), 0);
    sonde_monitor_free(monitor);
}

static void test_no_such_process(void **state _unused_)
{
    struct sonde_options options = options_of(0);
    struct sonde_error error = {{0}};

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    options.pid = child;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, &error), -ESRCH);
    assert_non_null(strstr(error.text, "no such process"));
    assert_int_equal(sonde_monitor_is_running(monitor), 0);
    assert_int_equal(sonde_monitor_mark(monitor, "x", &error), -ESRCH);
    assert_string_equal(error.text, "the monitor is not running");
}

/* ---- samples and summaries ---- */

static void test_no_samples_before_the_start(void **state _unused_)
{
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(NULL);
    struct sonde_sample *samples;
    struct sonde_timing timing;
    size_t count;

    assert_int_equal(sonde_monitor_stop(monitor), 0);
    assert_int_equal(sonde_monitor_samples(monitor, &samples, &count), 0);
    assert_true(count == 0 && samples == NULL);
    struct sonde_summary summary = summary_of(monitor);
    assert_true(summary.num_samples == 0 && summary.peak_rss_mb == 0 && summary.cpu_seconds == 0);
    assert_false(sonde_is_known(summary.mean_gpu_util));
    assert_int_equal(sonde_monitor_timing(monitor, &timing), 0);
    assert_true(timing.ticks == 0 && !sonde_is_known(timing.mean_late_us));
    sonde_monitor_free(NULL);
    sonde_free(NULL);
}

static void test_samples(void **state _unused_)
{
    struct sonde_options options = options_of(0.01);
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    struct sonde_sample *samples;
    size_t count;
    double sum = 0;

    double before = summary_of(monitor).duration_sec;
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    assert_int_equal(sonde_monitor_is_running(monitor), 1);
    assert_true(summary_of(monitor).num_samples >= 1); /* the first is taken at once */
    char *memory = take_memory(40 * MB);
    AWAIT(summary_of(monitor).num_samples > 10);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    munmap(memory, 40 * MB);
    assert_int_equal(sonde_monitor_is_running(monitor), 0);

    struct sonde_summary summary = summary_of(monitor);
    assert_int_equal(sonde_monitor_samples(monitor, &samples, &count), 0);
    assert_true(before == 0 && summary.num_samples == (int64_t)count);
    assert_false(sonde_is_known(samples[0].cpu_percent));
    for (size_t i = 0; i < count; i++) {
        assert_true(samples[i].rss_mb > 0.1);
        assert_true(i == 0 || samples[i].timestamp > samples[i - 1].timestamp);
        assert_true(i == 0 || samples[i].cpu_percent >= 0);
        assert_false(sonde_is_known(samples[i].gpu_util) || sonde_is_known(samples[i].gpu_mem_mb));
        sum += samples[i].rss_mb;
    }
    assert_near(summary.mean_rss_mb, sum / (double)count, 1e-6);
    assert_near(summary.duration_sec, samples[count - 1].timestamp - samples[0].timestamp, 1e-6);
    assert_near(summary.memory_growth_mb, samples[count - 1].rss_mb - samples[0].rss_mb, 1e-6);
    assert_near(summary.mean_cpu_percent, 100 * summary.cpu_seconds / summary.duration_sec, 1e-6);
    assert_true(summary.memory_growth_mb > 39);
    sonde_free(samples);
}

static void test_restart(void **state _unused_)
{
    struct sonde_options options = options_of(0.002);
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    struct sonde_error error = {{0}};
    struct sonde_phase *phases;
    size_t count;

    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    assert_int_equal(sonde_monitor_start(monitor, &error), -EALREADY);
    assert_non_null(strstr(error.text, "stop it first"));
    assert_int_equal(sonde_monitor_mark(monitor, "first", NULL), 0);
    AWAIT(summary_of(monitor).num_samples > 20);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    int64_t taken = summary_of(monitor).num_samples;
    nap_ms(10);
    assert_true(summary_of(monitor).num_samples == taken); /* it does not change after the stop */

    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    assert_true(summary_of(monitor).num_samples < taken);
    assert_int_equal(sonde_monitor_phases(monitor, &phases, &count), 0);
    assert_true(count == 0 && phases == NULL);
}

static void test_number_of_samples_is_bounded(void **state _unused_)
{
    struct sonde_options options = options_of(0.001);
    struct sonde_sample *samples;
    size_t count;
    double highest = 0;

    options.max_samples = 16;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    AWAIT(summary_of(monitor).num_samples > 20);
    char *memory = take_memory(32 * MB);
    int64_t before = summary_of(monitor).num_samples;
    AWAIT(summary_of(monitor).num_samples > before + 2); /* with all memory resident */
    munmap(memory, 32 * MB);
    AWAIT(summary_of(monitor).num_samples > 300);
    assert_int_equal(sonde_monitor_stop(monitor), 0);

    struct sonde_summary summary = summary_of(monitor);
    assert_int_equal(sonde_monitor_samples(monitor, &samples, &count), 0);
    assert_true(count > 8 && count <= 16);
    for (size_t i = 0; i < count; i++)
        highest = fmax(highest, samples[i].rss_mb);
    assert_near(highest, summary.peak_rss_mb, 0.6); /* the kernel batches RSS counts per CPU */
    double span = samples[count - 1].timestamp - samples[0].timestamp;
    assert_true(span > 0 && span < summary.duration_sec + 1e-6);
    sonde_free(samples);
}

static double cpu_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void burn(double seconds)
{
    for (double until = cpu_now() + seconds; cpu_now() < until;)
        ;
}

static double rusage_seconds(const struct rusage *usage)
{
    return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

static void test_cpu(void **state _unused_)
{
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(NULL);
    struct rusage before, after;

    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    getrusage(RUSAGE_SELF, &before);
    burn(0.5);
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    double used = rusage_seconds(&after) - rusage_seconds(&before);
    assert_near(summary_of(monitor).cpu_seconds, used, used / 100);
}

/* ---- peaks ---- */

/* Two samples only, at the start and at the end: the peak between them comes from the kernel. */
static double peak_of(double earlier_mb, double meanwhile_mb, unsigned flags)
{
    struct sonde_options options = options_of(3600);

    options.flags = flags;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    if (earlier_mb > 0)
        hold_memory((size_t)earlier_mb * MB, 0);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    hold_memory((size_t)meanwhile_mb * MB, 5);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    assert_int_equal(summary_of(monitor).num_samples, 2);
    return summary_of(monitor).peak_rss_mb;
}

/* In a new process, whose high-water mark starts low. */
static void assert_in_child(void (*function)(void))
{
    int status;

    pid_t child = fork();
    if (child == 0) {
        function();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with status 0x%x", (unsigned)status);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "# %s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void risen_peak(void)
{
    struct rusage usage;

    double peak = peak_of(0, 256, 0);
    getrusage(RUSAGE_SELF, &usage);
    CHECK(peak > 256 && peak < 400);
    CHECK(fabs(peak - (double)usage.ru_maxrss / 1024) < 0.5);
}

static void earlier_peak(void)
{
    CHECK(peak_of(256, 64, 0) < 200); /* the earlier 256 MB hide the 64 */
}

static void reset_peak(void)
{
    double peak = peak_of(256, 64, SONDE_RESET_PEAK);

    CHECK(peak > 64 && peak < 200);
}

static void test_peaks(void **state _unused_)
{
    assert_in_child(risen_peak);
    assert_in_child(earlier_peak);
    assert_in_child(reset_peak);
}

static void deny_reset(void)
{
    struct sonde_options options = options_of(0);
    struct sonde_error error = {{0}};

    options.flags = SONDE_RESET_PEAK;
    options.pid = getppid();
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    struct sonde_monitor *monitor = new_monitor(&options);
    CHECK(sonde_monitor_start(monitor, &error) == -EACCES);
    CHECK(strstr(error.text, "clear_refs"));
    CHECK(summary_of(monitor).num_samples == 0);
    sonde_monitor_free(monitor);
}

static void test_reset_of_another_users_peak(void **state _unused_)
{
    if (geteuid() == 0)
        assert_in_child(deny_reset);
}

/* ---- phases ---- */

static void phases(void)
{
    struct sonde_options options = options_of(3600);
    struct sonde_monitor *monitor = new_monitor(&options);
    struct sonde_phase *got;
    size_t count;

    CHECK(sonde_monitor_start(monitor, NULL) == 0);
    CHECK(sonde_monitor_mark(monitor, "large", NULL) == 0);
    hold_memory(128 * MB, 1);
    CHECK(sonde_monitor_mark(monitor, "quiet", NULL) == 0);
    burn(0.05);
    CHECK(sonde_monitor_mark(monitor, "growing", NULL) == 0);
    char *memory = take_memory(16 * MB);
    CHECK(sonde_monitor_mark(monitor, NULL, NULL) == 0);
    nap_ms(1);
    CHECK(sonde_monitor_mark(monitor, "quiet", NULL) == 0);
    CHECK(sonde_monitor_stop(monitor) == 0);
    munmap(memory, 16 * MB);

    CHECK(sonde_monitor_phases(monitor, &got, &count) == 0 && count == 4);
    CHECK(strcmp(got[0].name, "large") == 0 && strcmp(got[3].name, "quiet") == 0);
    CHECK(got[0].summary.peak_rss_mb > 128 && got[1].summary.peak_rss_mb < 64);
    CHECK(got[1].summary.cpu_seconds > 0.049 && got[1].summary.cpu_seconds < 0.2);
    CHECK(got[2].summary.memory_growth_mb > 15 && got[2].summary.memory_growth_mb < 20);
    for (size_t i = 0; i < count; i++)
        CHECK(got[i].summary.num_samples == 2);
    for (int i = 0; i < 2; i++) /* without a gap */
        CHECK(fabs(got[i].timestamp + got[i].summary.duration_sec - got[i + 1].timestamp) < 1e-6);
    CHECK(summary_of(monitor).num_samples == 7 && summary_of(monitor).peak_rss_mb > 128);
    sonde_free(got);
    sonde_monitor_free(monitor);
}

static void test_phases(void **state _unused_)
{
    assert_in_child(phases);
}

static void test_bad_marks(void **state _unused_)
{
    char long_name[SONDE_PHASE_NAME_SIZE + 1];
    struct sonde_error error;
    struct sonde_options options = options_of(3600);
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);

    memset(long_name, 'x', sizeof(long_name));
    long_name[SONDE_PHASE_NAME_SIZE] = '\0';
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    assert_int_equal(sonde_monitor_mark(monitor, "", &error), -EINVAL);
    assert_int_equal(sonde_monitor_mark(monitor, long_name, &error), -EINVAL);
    assert_string_equal(error.text, "name: has 64 bytes, but at most 63 are allowed");
    assert_int_equal(sonde_monitor_mark(monitor, "\xff", &error), -EINVAL);
    for (int i = 0; i < SONDE_PHASES_MAX; i++)
        assert_int_equal(sonde_monitor_mark(monitor, "x", &error), 0);
    assert_int_equal(sonde_monitor_mark(monitor, "x", &error), -ENOSPC);
    assert_int_equal(sonde_monitor_mark(monitor, NULL, &error), 0); /* but a phase can be ended */
}

/* ---- GPUs ---- */

struct fake_gpu {
    atomic_int calls;
    atomic_int inside;
    atomic_bool is_stuck;
    bool fails;
};

static int fake_figure(struct fake_gpu *gpu, double value, double *ret)
{
    atomic_fetch_add(&gpu->inside, 1);
    atomic_fetch_add(&gpu->calls, 1);
    AWAIT(!atomic_load(&gpu->is_stuck));
    atomic_fetch_sub(&gpu->inside, 1);
    if (gpu->fails)
        return -EIO;
    *ret = value;
    return 0;
}

static int fake_utilization(void *context, double *ret)
{
    return fake_figure(context, 42, ret);
}

static int fake_memory(void *context, double *ret)
{
    return fake_figure(context, 1024, ret);
}

static int fake_clock(void *context, double *ret)
{
    return fake_figure(context, 1500, ret);
}

static struct sonde_options gpu_options(struct sonde_gpu_source *source, struct fake_gpu *gpu)
{
    struct sonde_options options = options_of(0.002);

    *source = (struct sonde_gpu_source){.context = gpu,
                                        .utilization = fake_utilization,
                                        .memory = fake_memory,
                                        .clock = fake_clock};
    options.gpu_source = source;
    return options;
}

static void test_gpu(void **state _unused_)
{
    struct fake_gpu gpu = {0};
    struct sonde_gpu_source source;
    struct sonde_options options = gpu_options(&source, &gpu);
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    struct sonde_sample *samples;
    size_t count;

    memset(&source, 0, sizeof(source)); /* it was copied */
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    AWAIT(summary_of(monitor).num_samples > 10);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    int calls = atomic_load(&gpu.calls);

    struct sonde_summary summary = summary_of(monitor);
    assert_true(summary.mean_gpu_util == 42 && summary.peak_gpu_mem_mb == 1024);
    assert_true(summary.mean_gpu_clock_mhz == 1500 && !sonde_is_known(summary.mean_gpu_power_w));
    assert_int_equal(sonde_monitor_samples(monitor, &samples, &count), 0);
    assert_true(samples[0].gpu_util == 42 && samples[count - 1].gpu_mem_mb == 1024);
    assert_false(sonde_is_known(samples[0].gpu_power_w));
    sonde_free(samples);
    nap_ms(10);
    assert_int_equal(atomic_load(&gpu.calls), calls); /* never after the stop */

    gpu.fails = true;
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    assert_true(summary_of(monitor).num_samples >= 2);
    assert_false(sonde_is_known(summary_of(monitor).mean_gpu_util));
}

/* Figures that no GPU can have. */
static int give_context(void *context, double *ret)
{
    *ret = *(const double *)context;
    return 0;
}

static void test_impossible_gpu(void **state _unused_)
{
    static const double figures[] = {INFINITY, -INFINITY, NAN, -1, 1e308};

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        double figure = figures[i];
        struct sonde_gpu_source source = {&figure, give_context, give_context, give_context,
                                          give_context};
        struct sonde_options options = options_of(0.001);
        struct sonde_sample *samples;
        size_t count;
        char *json;

        options.gpu_source = &source;
        _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
        assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
        AWAIT(summary_of(monitor).num_samples > 5);
        assert_int_equal(sonde_monitor_stop(monitor), 0);

        struct sonde_summary summary = summary_of(monitor), again;
        bool is_known = figure == 1e308;
        assert_int_equal(sonde_monitor_samples(monitor, &samples, &count), 0);
        assert_true(is_known ? samples[0].gpu_util == figure : isnan(samples[0].gpu_util));
        sonde_free(samples);
        assert_true(is_known ? summary.mean_gpu_util == figure : isnan(summary.mean_gpu_util));
        assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
        assert_int_equal(sonde_summary_from_json(json, strlen(json), &again, NULL), 0);
        sonde_free(json);
        assert_true(is_known ? again.peak_gpu_mem_mb == figure : isnan(again.peak_gpu_mem_mb));
        assert_true(is_known ? again.mean_gpu_power_w == figure : isnan(again.mean_gpu_power_w));
        assert_true(again.mean_rss_mb == summary.mean_rss_mb);
    }
}

/* A GPU function that does not return delays no sample, and is not called a second time meanwhile.
 * */
static void test_stuck_gpu(void **state _unused_)
{
    struct fake_gpu gpu = {.is_stuck = true};
    struct sonde_gpu_source source;
    struct sonde_options options = gpu_options(&source, &gpu);
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);

    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    AWAIT(summary_of(monitor).num_samples > 50);
    assert_int_equal(atomic_load(&gpu.calls), 1);
    assert_false(sonde_is_known(summary_of(monitor).mean_gpu_util));
    atomic_store(&gpu.is_stuck, false);
    AWAIT(sonde_is_known(summary_of(monitor).mean_gpu_util));
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    assert_int_equal(atomic_load(&gpu.inside), 0);
}

/* ---- other processes ---- */

/* A child that waits for a byte before each step and confirms it with another. */
struct gate {
    int in[2], out[2];
    pid_t pid;
};

static void gate_open(struct gate *gate, void (*function)(struct gate *))
{
    assert_int_equal(pipe2(gate->in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(gate->out, O_CLOEXEC), 0);
    gate->pid = fork();
    if (gate->pid == 0) {
        function(gate);
        _exit(0);
    }
    assert_true(gate->pid > 0);
}

static void gate_wait(struct gate *gate) /* in the child */
{
    char byte;
    CHECK(read(gate->in[0], &byte, 1) == 1);
}

static void gate_confirm(struct gate *gate) /* in the child */
{
    CHECK(write(gate->out[1], "x", 1) == 1);
}

static void gate_step(struct gate *gate)
{
    char byte;
    assert_int_equal(write(gate->in[1], "x", 1), 1);
    assert_int_equal(read(gate->out[0], &byte, 1), 1);
}

static void gate_close(struct gate *gate)
{
    for (int i = 0; i < 2; i++) {
        close(gate->in[i]);
        close(gate->out[i]);
    }
}

/* Uses CPU time in children that come and go, then holds memory in a grandchild. */
static void busy_family(struct gate *gate)
{
    gate_wait(gate);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            burn(0.05);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    gate_confirm(gate);
    gate_wait(gate);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            take_memory(64 * MB);
            gate_confirm(gate);
            gate_wait(gate);
            _exit(0);
        }
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    gate_confirm(gate);
}

static void test_descendants(void **state _unused_)
{
    struct sonde_options options = options_of(0.01);
    struct gate gate;
    int status;

    gate_open(&gate, busy_family);
    options.pid = gate.pid;
    options.flags = SONDE_DESCENDANTS;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    gate_step(&gate); /* ten children */
    gate_step(&gate); /* a grandchild with memory */
    double before = summary_of(monitor).peak_rss_mb;
    AWAIT(summary_of(monitor).peak_rss_mb > 64);
    assert_true(before >= 0);
    gate_step(&gate);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)gate.pid, &info, WEXITED | WNOWAIT), 0);
    AWAIT(!sonde_monitor_is_running(monitor)); /* the monitor notices the end by itself */
    struct rusage usage;
    assert_int_equal(wait4(gate.pid, &status, 0, &usage), gate.pid);
    assert_int_equal(sonde_monitor_mark(monitor, "late", NULL), -ESRCH);
    assert_int_equal(sonde_monitor_stop(monitor), 0);

    double used = rusage_seconds(&usage);
    struct sonde_summary summary = summary_of(monitor);
    assert_true(used > 0.5);
    assert_near(summary.cpu_seconds, used, 0.05 * used); /* children's time comes in ticks */
    assert_true(summary.peak_rss_mb > 64);
    gate_close(&gate);
}

static void alone(struct gate *gate)
{
    gate_wait(gate);
    char *memory = take_memory(48 * MB);
    pid_t child = fork();
    if (child == 0) {
        burn(0.1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    gate_confirm(gate);
    gate_wait(gate);
    munmap(memory, 48 * MB);
    gate_confirm(gate);
    gate_wait(gate);
}

/* Without descendants: its own CPU time only, and its own memory. */
static void test_one_other_process(void **state _unused_)
{
    struct sonde_options options = options_of(0.01);
    struct gate gate;

    gate_open(&gate, alone);
    options.pid = gate.pid;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    gate_step(&gate);
    gate_step(&gate);
    assert_int_equal(sonde_monitor_stop(monitor), 0);
    struct sonde_summary summary = summary_of(monitor);
    assert_true(summary.peak_rss_mb > 48 && summary.peak_rss_mb < 100);
    assert_true(summary.cpu_seconds < 0.09);
    assert_int_equal(write(gate.in[1], "x", 1), 1);
    assert_int_equal(waitpid(gate.pid, NULL, 0), gate.pid);
    gate_close(&gate);
}

/* A process whose first thread has ended: /proc/PID shows no figures of it. */
static void *outlive_leader(void *gate)
{
    take_memory(32 * MB);
    gate_confirm(gate);
    gate_wait(gate);
    _exit(0);
}

static void headless(struct gate *gate)
{
    pthread_t thread;

    pthread_create(&thread, NULL, outlive_leader, gate);
    pthread_exit(NULL);
}

static void test_leader_that_ended(void **state _unused_)
{
    struct sonde_options options = options_of(0.01);
    struct gate gate;
    char byte;

    gate_open(&gate, headless);
    assert_int_equal(read(gate.out[0], &byte, 1), 1);
    options.pid = gate.pid;
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    AWAIT(summary_of(monitor).num_samples > 5);
    assert_int_equal(sonde_monitor_is_running(monitor), 1);
    assert_true(summary_of(monitor).mean_rss_mb > 32);
    assert_int_equal(write(gate.in[1], "x", 1), 1);
    assert_int_equal(waitpid(gate.pid, NULL, 0), gate.pid);
    AWAIT(!sonde_monitor_is_running(monitor));
    assert_int_equal(sonde_monitor_start(monitor, NULL), -ESRCH); /* and not -EALREADY */
    gate_close(&gate);
}

/* ---- descriptors ---- */

#define ROOM_MAX 10

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = count;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static double least_rss_mb(struct sonde_monitor *monitor)
{
    struct sonde_sample *samples;
    size_t count;
    double least = INFINITY;

    CHECK(sonde_monitor_samples(monitor, &samples, &count) == 0 && count > 0);
    for (size_t i = 0; i < count; i++)
        least = samples[i].rss_mb < least || !sonde_is_known(samples[i].rss_mb) ? samples[i].rss_mb
                                                                                : least;
    sonde_free(samples);
    return least;
}

/* With few free descriptors, a monitor either starts and has all figures, or returns an error. */
static bool starts_with_room(unsigned flags, pid_t pid, double wanted_mb)
{
    struct sonde_options options = options_of(0.001);
    struct sonde_error error = {{0}};

    options.flags = flags;
    options.pid = pid;
    struct sonde_monitor *monitor = new_monitor(&options);
    int r = sonde_monitor_start(monitor, &error);
    if (r == 0) {
        AWAIT(summary_of(monitor).num_samples > 5);
        CHECK(sonde_monitor_stop(monitor) == 0);
        CHECK(least_rss_mb(monitor) > wanted_mb && summary_of(monitor).peak_rss_mb > wanted_mb);
    } else {
        CHECK(r == -EMFILE);
        CHECK(strstr(error.text, "too many files open") && strstr(error.text, "ulimit -n"));
        CHECK(summary_of(monitor).num_samples == 0 && !sonde_monitor_is_running(monitor));
    }
    sonde_monitor_free(monitor);
    return r == 0;
}

static void assert_rooms(unsigned flags, pid_t pid, double wanted_mb)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool starts = true;

    CHECK(next >= 0 && close(next) == 0);
    for (int room = ROOM_MAX; room >= 0; room--) {
        limit_descriptors((rlim_t)(next + room));
        bool starts_now = starts_with_room(flags, pid, wanted_mb);
        CHECK(starts || !starts_now);         /* what works with fewer also works with more */
        CHECK(room < ROOM_MAX || starts_now); /* this many suffice */
        CHECK(room > 2 || flags ||
              !starts_now); /* two suffice for /proc and stat, but not for statm */
        CHECK(room > 3 || !flags || !starts_now);
        starts = starts_now;
    }
    limit_descriptors((rlim_t)(next + 64));
}

static void holder(struct gate *gate)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_memory(32 * MB);
    gate_confirm(gate);
    gate_wait(gate);
}

static void few_descriptors(void)
{
    struct gate gate;
    char byte;

    gate_open(&gate, holder);
    CHECK(read(gate.out[0], &byte, 1) == 1);
    assert_rooms(0, 0, 0.1);
    assert_rooms(SONDE_DESCENDANTS, 0, 32);
    assert_rooms(0, gate.pid, 32);
    CHECK(write(gate.in[1], "x", 1) == 1 && waitpid(gate.pid, NULL, 0) == gate.pid);
}

static void test_few_descriptors(void **state _unused_)
{
    assert_in_child(few_descriptors);
}

/* ---- signals ---- */

static bool blocks_all_signals(pid_t tid)
{
    char path[64], line[128];
    unsigned long long blocked = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
    _cleanup_fclose_ FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        sscanf(line, "SigBlk: %llx", &blocked);
    /* all except SIGKILL, SIGSTOP and the two that glibc reserves */
    return (blocked | 1ull << 8 | 1ull << 18 | 3ull << 31) == UINT64_MAX;
}

static void test_monitor_thread_blocks_signals(void **state _unused_)
{
    _cleanup_monitor_ struct sonde_monitor *monitor = new_monitor(NULL);
    sigset_t before, after;
    int found = 0;

    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, _NSIG / 8); /* the kernel fills no more */
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[sizeof("/proc/self/task//comm") + NAME_MAX], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        _cleanup_fclose_ FILE *file = fopen(path, "re");
        if (!file || !fgets(name, sizeof(name), file) || strcmp(name, "sonde\n") != 0)
            continue;
        assert_true(blocks_all_signals(atoi(entry->d_name)));
        found++;
    }
    closedir(tasks);
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_newer_options),
        cmocka_unit_test(test_no_such_process),
        cmocka_unit_test(test_no_samples_before_the_start),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_number_of_samples_is_bounded),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_reset_of_another_users_peak),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_bad_marks),
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_impossible_gpu),
        cmocka_unit_test(test_stuck_gpu),
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_one_other_process),
        cmocka_unit_test(test_leader_that_ended),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_monitor_thread_blocks_signals),
    };
    return cmocka_run_group_tests_name("lib-monitor", tests, NULL, NULL);
}
