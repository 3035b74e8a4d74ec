/* libsonde: what a program uses while it runs, sampled in the background.
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
 * Plain C99, and C++. Functions return 0 or a positive value for success and a negative errno for
 * failure; those that take a struct sonde_error say in words what was wrong (NULL: no words). What
 * they return through a pointer is untouched on failure.
 *
 * Unknown is not zero: a figure that could not be read is NaN (sonde_is_known()), and null in JSON.
 * All `_mb` are MiB; 100 % CPU is one core.
 *
 * Threads: everything may be called from any thread, also for one monitor from several at once
 * (sonde_monitor_free() last, of course). There is no global state; no signal is used or handled,
 * nothing is printed. The library's threads block all signals, so that none is taken from the
 * program.
 *
 * fork(): a child's copy of a monitor is not running and holds nothing; it can be started, or must
 * at least be freed if its memory matters. The parent's goes on. (A child of vfork() must not touch
 * it.) exec() closes what a monitor has open.
 *
 * The structs here do not change within a version of the library's soname, but for
 * struct sonde_options, which may grow at its end and says how large it is. */
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

/* The library's version, as text: "0.1.0". */
SONDE_API const char *sonde_version(void);

/* Whether a figure could be read. */
#define sonde_is_known(figure) ((figure) == (figure))

struct sonde_error {
    char text[256]; /* valid UTF-8, one line, no newline */
};

/* One measurement. Of several processes, the figures are their sums: CPU of all that they have done
 * since the last sample, also of those that have come and gone in between; memory in RAM, in which
 * what they share is counted for each. */
struct sonde_sample {
    double timestamp;   /* seconds on CLOCK_MONOTONIC */
    double cpu_percent; /* since the sample before; unknown in the first one */
    double rss_mb;
    double gpu_util;
    double gpu_mem_mb;
    double gpu_clock_mhz;
    double gpu_power_w;
};

/* What was used from start to stop, or in one phase of it. From all samples that were taken, not
 * only from those that are kept. Without any sample, all is 0, and unknown what may be so. */
struct sonde_summary {
    double peak_rss_mb;        /* the kernel's high-water mark, where that has risen meanwhile */
    double mean_rss_mb;        /* over the samples */
    double peak_gpu_mem_mb;    /* may be unknown */
    double mean_gpu_util;      /* may be unknown */
    double memory_growth_mb;   /* last RSS − first */
    int64_t num_samples;       /* that were taken */
    double duration_sec;       /* last timestamp − first */
    double mean_gpu_clock_mhz; /* may be unknown */
    double mean_gpu_power_w;   /* may be unknown */
    double mean_cpu_percent;   /* CPU time ÷ duration; may be unknown */
    double cpu_seconds;        /* may be unknown, in what was read from JSON */
};

/* ---- GPUs ---- */

/* Where figures of a GPU come from. A function that is NULL, or that fails (returns a negative
 * number), makes its figure unknown in that sample, and so is one that is negative or not finite.
 * They are called from one thread that does nothing else, once a sample and never after
 * sonde_monitor_stop() has returned: one that is slow delays no sample, but has its own figures
 * missing. They must not start, stop, mark or free the monitor themselves. `context` is handed to
 * each. */
struct sonde_gpu_source {
    void *context;
    int (*utilization)(void *context, double *ret_pct);
    int (*memory)(void *context, double *ret_used_mb);
    int (*clock)(void *context, double *ret_mhz);
    int (*power)(void *context, double *ret_watts);
};

/* How many GPUs the built-in source finds: 0 where there is none, or no driver. It loads the
 * library of NVIDIA's driver for it, where that is installed, which can take a second. */
SONDE_API int sonde_gpu_count(void);

/* ---- a monitor ---- */

enum sonde_flag {
    /* All descendants too, those that are there and those to come, however short-lived as far as
     * CPU time goes; for memory, those that are there at a sample. */
    SONDE_DESCENDANTS = 1 << 0,
    /* Resets the kernel's high-water mark of memory at the start and at each mark, so that a peak
     * is found that stays below an earlier one. It is reset for everyone who looks at the process,
     * `ru_maxrss` included: not done unless asked for. */
    SONDE_RESET_PEAK = 1 << 1,
    /* GPU number `gpu_index`: first NVIDIA's, by the library of its driver, then AMD's, Intel's
     * and others', as the kernel shows them. Unknown where there is none. */
    SONDE_BUILTIN_GPU = 1 << 2,
};

/* It may be larger than the library's own, as it is in a program that was built with a newer
 * header: what the library does not know must be 0. */
struct sonde_options {
    size_t size;          /* sizeof(struct sonde_options) */
    double interval_sec;  /* 0.001 to 3600; 0: 0.1 */
    int pid;              /* the process to look at; 0: this one */
    unsigned flags;       /* of enum sonde_flag */
    unsigned max_samples; /* that are kept, 16 to 16777216; 0: 8192 */
    unsigned gpu_index;
    const struct sonde_gpu_source *gpu_source; /* copied; NULL: none */
};

#define SONDE_OPTIONS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct sonde_options), 0.0, 0, 0u, 0u, 0u, NULL                                     \
    }

struct sonde_monitor;

/* Makes a monitor; `options` NULL is SONDE_OPTIONS_INIT. -EINVAL: an option is wrong, and `error`
 * names it; -E2BIG: one is set that this library is too old to know; -ENOMEM. */
SONDE_API int sonde_monitor_new(const struct sonde_options *options, struct sonde_monitor **ret,
                                struct sonde_error *error);

/* Stops it first. NULL is fine. */
SONDE_API void sonde_monitor_free(struct sonde_monitor *monitor);

/* Forgets earlier samples and phases, takes the first sample, and goes on in the background.
 * -EALREADY: it is running; -ESRCH: there is no such process; -EACCES, -EPERM: it may not be looked
 * at, or its peak not be reset; -EXDEV: /proc is missing or another pid namespace's; -EOPNOTSUPP:
 * this kernel does not list children; -EMFILE, -ENFILE: it cannot be read, because too many
 * files are open; -EAGAIN, -ENOMEM: no room for a thread, or memory. */
SONDE_API int sonde_monitor_start(struct sonde_monitor *monitor, struct sonde_error *error);

/* Takes the last sample and stops. What was sampled stays until the next start. 0, also if it was
 * not running. */
SONDE_API int sonde_monitor_stop(struct sonde_monitor *monitor);

/* 1: it samples; 0: not, or no longer, because the process that it looks at is gone with all its
 * descendants. */
SONDE_API int sonde_monitor_is_running(struct sonde_monitor *monitor);

/* A copy of the samples, oldest first, for sonde_free(). In a long run, once there are
 * `max_samples`, every two become one: the one with more memory, with the mean of both in
 * cpu_percent, gpu_util, gpu_clock_mhz and gpu_power_w and the larger gpu_mem_mb; and from then on
 * one stands for twice as many. *ret is NULL if there are none. 0 or -ENOMEM. */
SONDE_API int sonde_monitor_samples(struct sonde_monitor *monitor, struct sonde_sample **ret,
                                    size_t *ret_count);

/* So far, while it runs; from start to stop after it. */
SONDE_API int sonde_monitor_summary(struct sonde_monitor *monitor, struct sonde_summary *ret);

/* How well the samples kept their time. */
struct sonde_timing {
    uint64_t ticks;      /* samples that were due by the clock, and taken */
    uint64_t missed;     /* due and not taken: the one before was not finished, or the program
                            was stopped */
    double mean_late_us; /* of the ticks; unknown without any */
    double max_late_us;
};

SONDE_API int sonde_monitor_timing(struct sonde_monitor *monitor, struct sonde_timing *ret);

/* ---- phases ---- */

#define SONDE_PHASE_NAME_SIZE 64
#define SONDE_PHASES_MAX      4096

struct sonde_phase {
    char name[SONDE_PHASE_NAME_SIZE]; /* valid UTF-8 */
    double timestamp;                 /* of its first sample */
    struct sonde_summary summary;
};

/* From now on it is phase `name`, until the next mark or the end; NULL: none. A sample is taken
 * here and now, which is the last one of the phase before and the first of this one. The same name
 * may come again, as another phase. -ESRCH: it is not running; -EINVAL: the name is empty, too long
 * or not UTF-8; -ENOSPC: there have been SONDE_PHASES_MAX; -ENOMEM; -EACCES: see
 * SONDE_RESET_PEAK. */
SONDE_API int sonde_monitor_mark(struct sonde_monitor *monitor, const char *name,
                                 struct sonde_error *error);

/* A copy of the phases in their order, the one that goes on included, for sonde_free(). *ret is
 * NULL if there are none. 0 or -ENOMEM. */
SONDE_API int sonde_monitor_phases(struct sonde_monitor *monitor, struct sonde_phase **ret,
                                   size_t *ret_count);

/* ---- JSON ---- */

/* One object, on one line, for sonde_free(). `peak_gpu_mem_mb`, `mean_gpu_util` and
 * `mean_cpu_percent` are null if unknown, the other two means are left out. Reading it back gives
 * an equal summary. 0; -EINVAL: it could not be read back, because a figure that must be known is
 * not finite, or one is negative that cannot be; -ENOMEM. */
SONDE_API int sonde_summary_to_json(const struct sonde_summary *summary, char **ret);

/* The other way: `length` bytes. The means of clock and power, `mean_cpu_percent` and `cpu_seconds`
 * may be missing, and are unknown then; keys that are not known are passed over. Only
 * `memory_growth_mb` may be negative. -EBADMSG: it is not such an object, and `error` names the
 * field or the place; -ENOMEM. */
SONDE_API int sonde_summary_from_json(const char *json, size_t length, struct sonde_summary *ret,
                                      struct sonde_error *error);

/* For what this library has returned. NULL is fine. */
SONDE_API void sonde_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
