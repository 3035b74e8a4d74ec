#include "lib/options.h"

#include <errno.h>
#include <math.h>

#include "lib/errors.h"

#define INTERVAL_MIN_SEC     0.001
#define INTERVAL_MAX_SEC     3600.0
#define INTERVAL_DEFAULT_SEC 0.1
#define SAMPLES_MIN          16u
#define SAMPLES_MAX          (1u << 24)
#define SAMPLES_DEFAULT      8192u

/* Larger than the struct of any future version: a larger size was not initialised. */
#define SIZE_MAX_BYTES 4096

/* Checks the size. A program built with a newer header has options after the known ones, which must
 * be 0. */
static int check_size(const struct sonde_options *options, struct sonde_error *error)
{
    const unsigned char *bytes = (const unsigned char *)options;

    if (options->size < sizeof(*options) || options->size > SIZE_MAX_BYTES)
        return error_set(error, -EINVAL,
                         "size: %zu is not the size of struct sonde_options (%zu); use "
                         "SONDE_OPTIONS_INIT",
                         options->size, sizeof(*options));
    for (size_t i = sizeof(*options); i < options->size; i++)
        if (bytes[i])
            return error_set(error, -E2BIG,
                             "size: an option at byte %zu is not known to libsonde %s; leave it at "
                             "0, or use a newer library",
                             i, SONDE_VERSION);
    return 0;
}

static int check(const struct sonde_options *options, struct sonde_error *error)
{
    const unsigned known = SONDE_DESCENDANTS | SONDE_RESET_PEAK | SONDE_BUILTIN_GPU;

    int r = check_size(options, error);
    if (r < 0)
        return r;
    if (options->interval_sec != 0 &&
        !(options->interval_sec >= INTERVAL_MIN_SEC && options->interval_sec <= INTERVAL_MAX_SEC))
        return error_set(error, -EINVAL, "interval_sec: %g is not within %g to %g",
                         options->interval_sec, INTERVAL_MIN_SEC, INTERVAL_MAX_SEC);
    if (options->pid < 0)
        return error_set(error, -EINVAL, "pid: %d is not a valid pid", options->pid);
    if (options->flags & ~known)
        return error_set(error, -EINVAL, "flags: 0x%x is not known", options->flags & ~known);
    if (options->max_samples &&
        (options->max_samples < SAMPLES_MIN || options->max_samples > SAMPLES_MAX))
        return error_set(error, -EINVAL, "max_samples: %u is not within %u to %u",
                         options->max_samples, SAMPLES_MIN, SAMPLES_MAX);
    if (options->gpu_source && (options->flags & SONDE_BUILTIN_GPU))
        return error_set(error, -EINVAL, "gpu_source: cannot be combined with SONDE_BUILTIN_GPU");
    return 0;
}

int options_read(const struct sonde_options *given, struct monitor_options *ret,
                 struct sonde_error *error)
{
    static const struct sonde_options none = SONDE_OPTIONS_INIT;

    if (!given)
        given = &none;
    int r = check(given, error);
    if (r < 0)
        return r;
    double interval_sec = given->interval_sec != 0 ? given->interval_sec : INTERVAL_DEFAULT_SEC;
    *ret = (struct monitor_options){
        .interval_ns = (uint64_t)llround(interval_sec * 1e9),
        .pid = given->pid,
        .flags = given->flags,
        .max_samples = given->max_samples ? given->max_samples : SAMPLES_DEFAULT,
        .gpu_index = given->gpu_index,
        .has_gpu_source = given->gpu_source != NULL,
    };
    if (given->gpu_source)
        ret->gpu_source = *given->gpu_source;
    return 0;
}
