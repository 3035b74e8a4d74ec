/* libsonde: samples the CPU, memory and GPU usage of a program in the background.
 *
 *     struct sonde_monitor *monitor;
 *     struct sonde_summary summary;
 *
 *     sonde_monitor_new(NULL, &monitor, NULL);      this process, ten samples a second
 *     sonde_monitor_start(monitor, NULL);
 *     work();
 *     sonde_monitor_stop(monitor);
 *     sonde_monitor_summary(monitor, &summary);
 *     sonde_monitor_free(monitor);
 *
 * The header is valid C99 and C++. Functions return 0 or a positive value on success and a negative
 * errno on failure. A function with a struct sonde_error parameter stores a message there, unless
 * it is NULL. On failure, all other results are left unchanged.
 *
 * Unknown is not zero: a figure that could not be read is NaN (see sonde_is_known()), and null in
 * JSON. All `_mb` figures are in MiB. 100 % CPU is one core.
 *
 * Threads: every function may be called from any thread, and several threads may use the same
 * monitor at once; only sonde_monitor_free() must be the last call. The library has no global
 * state, uses no signals and prints nothing. Its threads block all signals, so that the program
 * receives them.
 *
 * fork(): the child's copy of a monitor is stopped and empty. The child may start or free it. The
 * parent's monitor continues. A child of vfork() must not use it. exec() closes all files that a
 * monitor has open.
 *
 * The structs do not change within one soname, except struct sonde_options, which may grow at its
 * end and contains its size. */
#ifndef SONDE_SONDE_H
#define SONDE_SONDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SONDE_API __attribute__((visibility("default")))
#else
#define SONDE_API
#endif

/* The version of the library as a static string, such as "0.1.0". */
SONDE_API const char *sonde_version(void);

/* Whether a figure is known, that is, not NaN. */
#define sonde_is_known(figure) ((figure) == (figure))

struct sonde_error {
    char text[256]; /* valid UTF-8, one line, no newline */
};

/* One measurement. With several processes, CPU and RSS are sums: CPU includes processes that
 * started and ended since the last sample; RSS counts a shared page once for each process that uses
 * it. */
struct sonde_sample {
    double timestamp;   /* seconds on CLOCK_MONOTONIC */
    double cpu_percent; /* since the previous sample; unknown in the first one */
    double rss_mb;
    double gpu_util;
    double gpu_mem_mb;
    double gpu_clock_mhz;
    double gpu_power_w;
};

/* The usage from start to stop, or in one phase, computed from all samples taken, not only from
 * those that are kept. Without a sample, figures marked "may be unknown" are unknown, and all
 * others are 0. */
struct sonde_summary {
    double peak_rss_mb;        /* largest RSS of a sample, or the kernel's peak if that has risen */
    double mean_rss_mb;        /* over the samples */
    double peak_gpu_mem_mb;    /* may be unknown */
    double mean_gpu_util;      /* may be unknown */
    double memory_growth_mb;   /* last RSS − first */
    int64_t num_samples;       /* number of samples taken */
    double duration_sec;       /* last timestamp − first */
    double mean_gpu_clock_mhz; /* may be unknown */
    double mean_gpu_power_w;   /* may be unknown */
    double mean_cpu_percent;   /* CPU time ÷ duration; may be unknown */
    double cpu_seconds;        /* unknown only in a summary read from JSON */
};

/* ---- GPUs ---- */

/* A source of GPU figures. A figure is unknown in a sample if its function is NULL, fails (returns
 * a negative number), or returns a value that is negative or not finite.
 *
 * The library calls these functions from one thread that does nothing else, once per sample and
 * never after sonde_monitor_stop() has returned. A slow function delays no sample; its figures are
 * unknown instead. The functions must not start, stop, mark or free the monitor. `context` is
 * passed to each of them. */
struct sonde_gpu_source {
    void *context;
    int (*utilization)(void *context, double *ret_pct);
    int (*memory)(void *context, double *ret_used_mb);
    int (*clock)(void *context, double *ret_mhz);
    int (*power)(void *context, double *ret_watts);
};

/* Returns the number of GPUs that the built-in source finds, 0 if there is none or no driver. Loads
 * the library of NVIDIA's driver if it is installed, which can take a second. */
SONDE_API int sonde_gpu_count(void);

/* ---- a monitor ---- */

enum sonde_flag {
    /* Include all present and future descendants. CPU time includes even the shortest-lived ones;
     * memory includes those that exist at a sample. */
    SONDE_DESCENDANTS = 1 << 0,
    /* Reset the kernel's peak RSS at the start and at each mark, so that a peak is found even if an
     * earlier one was higher. This affects every reader of that value, including `ru_maxrss`. */
    SONDE_RESET_PEAK = 1 << 1,
    /* Sample the GPU number `gpu_index` with the built-in source. NVIDIA's GPUs come first, read
     * through the library of its driver, then AMD's, Intel's and others, read from the kernel. The
     * figures are unknown if there is no such GPU. */
    SONDE_BUILTIN_GPU = 1 << 2,
};

/* A program built with a newer header may pass a larger struct. Options that the library does not
 * know must then be 0. */
struct sonde_options {
    size_t size;          /* sizeof(struct sonde_options) */
    double interval_sec;  /* 0.001 to 3600; 0: 0.1 */
    int pid;              /* the process to monitor; 0: this one */
    unsigned flags;       /* bits of enum sonde_flag */
    unsigned max_samples; /* number of samples to keep, 16 to 16777216; 0: 8192 */
    unsigned gpu_index;   /* for SONDE_BUILTIN_GPU */
    const struct sonde_gpu_source *gpu_source; /* copied; NULL: none */
};

#define SONDE_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct sonde_options), 0.0, 0, 0u, 0u, 0u, NULL                                     \
    }

struct sonde_monitor;

/* Creates a monitor, which the caller frees. `options` may be NULL for the defaults. Returns 0;
 * -EINVAL (an option is invalid; `error` names it); -E2BIG (an option is set that this version of
 * the library does not know); or -ENOMEM. */
SONDE_API int sonde_monitor_new(const struct sonde_options *options, struct sonde_monitor **ret,
                                struct sonde_error *error);

/* Stops the monitor if it is running, and frees it. NULL is allowed. */
SONDE_API void sonde_monitor_free(struct sonde_monitor *monitor);

/* Discards earlier samples and phases, takes the first sample, and continues in the background.
 * Returns 0 or:
 *   -EALREADY          the monitor is running
 *   -ESRCH             there is no such process
 *   -EACCES, -EPERM    no permission to read the process or to reset its peak
 *   -EXDEV             /proc is missing or belongs to another pid namespace
 *   -EOPNOTSUPP        this kernel does not list children (CONFIG_PROC_CHILDREN)
 *   -EMFILE, -ENFILE   too many files are open to read the process
 *   -EAGAIN, -ENOMEM   no further thread, or no memory */
SONDE_API int sonde_monitor_start(struct sonde_monitor *monitor, struct sonde_error *error);

/* Takes the last sample and stops the monitor. The results stay until the next start. Returns 0,
 * also if the monitor was not running. */
SONDE_API int sonde_monitor_stop(struct sonde_monitor *monitor);

/* Returns 1 while the monitor samples; 0 if it was not started, was stopped, or if the monitored
 * process and, with SONDE_DESCENDANTS, all its descendants have ended. */
SONDE_API int sonde_monitor_is_running(struct sonde_monitor *monitor);

/* Returns a copy of the samples, oldest first, which the caller frees with sonde_free(); *ret is
 * NULL if there are none. Whenever `max_samples` is reached, each pair of samples is merged into
 * one, and from then on each kept sample represents twice as many. A merged sample has the
 * timestamp and RSS of the one with more RSS, the larger gpu_mem_mb, and the mean of cpu_percent,
 * gpu_util, gpu_clock_mhz and gpu_power_w. Returns 0 or -ENOMEM. */
SONDE_API int sonde_monitor_samples(struct sonde_monitor *monitor, struct sonde_sample **ret,
                                    size_t *ret_count);

/* Returns the summary so far while the monitor is running, and from start to stop afterwards.
 * Always returns 0. */
SONDE_API int sonde_monitor_summary(struct sonde_monitor *monitor, struct sonde_summary *ret);

/* How punctual the samples were. */
struct sonde_timing {
    uint64_t ticks;      /* scheduled samples that were taken */
    uint64_t missed;     /* scheduled samples that were skipped, because the previous one was not
                            finished or the program was stopped */
    double mean_late_us; /* delay of the ticks; unknown without a tick */
    double max_late_us;
};

/* Always returns 0. */
SONDE_API int sonde_monitor_timing(struct sonde_monitor *monitor, struct sonde_timing *ret);

/* ---- phases ---- */

#define SONDE_PHASE_NAME_SIZE 64
#define SONDE_PHASES_MAX      4096

struct sonde_phase {
    char name[SONDE_PHASE_NAME_SIZE]; /* valid UTF-8 */
    double timestamp;                 /* of its first sample */
    struct sonde_summary summary;
};

/* Ends the present phase and begins the phase `name`; NULL begins none. Takes a sample at once,
 * which is the last one of the previous phase and the first one of the new phase. A name may be
 * used for several phases. Returns 0 or:
 *   -ESRCH            the monitor is not running, or the process has ended
 *   -EINVAL           the name is empty, too long or not UTF-8
 *   -ENOSPC           there are already SONDE_PHASES_MAX phases
 *   -EACCES, -EPERM   no permission to reset the peak (SONDE_RESET_PEAK)
 *   -ENOMEM           no memory */
SONDE_API int sonde_monitor_mark(struct sonde_monitor *monitor, const char *name,
                                 struct sonde_error *error);

/* Returns a copy of the phases in their order, including the present one, which the caller frees
 * with sonde_free(); *ret is NULL if there are none. Returns 0 or -ENOMEM. */
SONDE_API int sonde_monitor_phases(struct sonde_monitor *monitor, struct sonde_phase **ret,
                                   size_t *ret_count);

/* ---- JSON ---- */

/* Formats a summary as one JSON object on one line, which the caller frees with sonde_free().
 * Unknown figures are null, except `mean_gpu_clock_mhz` and `mean_gpu_power_w`, which are omitted.
 * Reading it back gives an equal summary. Returns 0, -EINVAL (a figure that must be known is not
 * finite, or a figure other than `memory_growth_mb` is negative) or -ENOMEM. */
SONDE_API int sonde_summary_to_json(const struct sonde_summary *summary, char **ret);

/* Parses `length` bytes of JSON. `mean_gpu_clock_mhz`, `mean_gpu_power_w`, `mean_cpu_percent` and
 * `cpu_seconds` may be missing and are then unknown. Other keys are ignored. Only
 * `memory_growth_mb` may be negative. Returns 0, -EBADMSG (not such an object; `error` names the
 * field or the position) or -ENOMEM. */
SONDE_API int sonde_summary_from_json(const char *json, size_t length, struct sonde_summary *ret,
                                      struct sonde_error *error);

/* Frees memory that this library has returned. NULL is allowed. */
SONDE_API void sonde_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
