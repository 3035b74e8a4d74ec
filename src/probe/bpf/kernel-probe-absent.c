/* For a build without the kernel collector. Opening always fails, so that the other functions are
 * never called. */
#include "probe/bpf/kernel-probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"

bool kernel_probe_is_allowed(const char *proc_root _unused_, struct kernel_probe_error *error)
{
    snprintf(error->text, sizeof(error->text), "sonde was built without it");
    return false;
}

int kernel_probe_open(const struct kernel_probe_options *options,
                      struct kernel_probe **ret _unused_, struct kernel_probe_error *error)
{
    kernel_probe_is_allowed(options->proc_root, error);
    return -EOPNOTSUPP;
}

void kernel_probe_close(struct kernel_probe *probe _unused_)
{
}

void kernel_probe_closep(struct kernel_probe **probe _unused_)
{
}

bool kernel_probe_has(const struct kernel_probe *probe _unused_, enum kernel_part part _unused_)
{
    return false;
}

const char *kernel_probe_missing_parts(const struct kernel_probe *probe _unused_)
{
    return "";
}

int kernel_probe_scan(struct kernel_probe *probe _unused_, probe_depth_fn depth _unused_,
                      void *context _unused_, struct readings *out _unused_,
                      size_t *ret_total _unused_)
{
    return -EOPNOTSUPP;
}

int kernel_probe_read_pids(struct kernel_probe *probe _unused_, const pid_t *pids _unused_,
                           size_t count _unused_, bool are_all _unused_,
                           struct readings *out _unused_)
{
    return -EOPNOTSUPP;
}

int kernel_probe_fd(const struct kernel_probe *probe _unused_)
{
    return -1;
}

int kernel_probe_drain(struct kernel_probe *probe _unused_, lifecycle_fn on_event _unused_,
                       void *context _unused_)
{
    return -EOPNOTSUPP;
}

bool kernel_probe_sleep(struct kernel_probe *probe _unused_)
{
    return false;
}

bool kernel_probe_sleeps(const struct kernel_probe *probe _unused_)
{
    return false;
}

bool kernel_probe_awaits_end(const struct kernel_probe *probe _unused_, pid_t pid _unused_)
{
    return false;
}

void kernel_probe_settle(struct kernel_probe *probe _unused_, pid_t pid _unused_,
                         uint64_t patience_ns _unused_, lifecycle_fn on_event _unused_,
                         void *context _unused_)
{
}

uint64_t kernel_probe_lost(const struct kernel_probe *probe _unused_)
{
    return 0;
}

int kernel_probe_tag(struct kernel_probe *probe _unused_, pid_t pid _unused_, uint32_t tag _unused_)
{
    return -EOPNOTSUPP;
}

int kernel_probe_sample_calls(struct kernel_probe *probe _unused_, const pid_t *pids _unused_,
                              size_t count _unused_, thread_call_fn on_thread _unused_,
                              void *context _unused_)
{
    return -EOPNOTSUPP;
}

int kernel_probe_count_calls(struct kernel_probe *probe _unused_, bool is_wanted _unused_)
{
    return -EOPNOTSUPP;
}

bool kernel_probe_counts_calls(const struct kernel_probe *probe _unused_)
{
    return false;
}

int kernel_probe_count_calls_of(struct kernel_probe *probe _unused_, pid_t pid _unused_,
                                enum counting_start start _unused_)
{
    return -EOPNOTSUPP;
}

void kernel_probe_stop_counting_calls_of(struct kernel_probe *probe _unused_, pid_t pid _unused_)
{
}

int kernel_probe_read_calls(struct kernel_probe *probe _unused_, process_calls_fn on_sum _unused_,
                            void *context _unused_)
{
    return -EOPNOTSUPP;
}

uint64_t kernel_probe_lost_calls(const struct kernel_probe *probe _unused_)
{
    return 0;
}
