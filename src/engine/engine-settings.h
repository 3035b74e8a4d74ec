/* The engine's settings, derived from the configuration in one place: for the daemon, `sonde run`
 * and the local collector of `sonde top`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "jobs/rules.h"

/* Settings that may change. The pointers must stay valid until the engine is closed or configured
 * anew. */
struct engine_settings {
    uint64_t interval_ns;
    enum scope scope;
    const char *only_job; /* snapshots have only this job (job_id or run_id); NULL: all */
    const struct anomaly_config *anomaly; /* NULL: no detection */
    const struct limits_config *limits;   /* NULL: no pressure level */
    const struct rules *rules;            /* NULL: none */
    uint64_t linger_ns; /* how long a run found by a rule outlives its last process */
    enum syscalls_choice syscalls;
    enum auto_switch gpus;
    const struct text_list *redact; /* words of redaction, see model/redact.h; NULL: none */
    bool traces_members;            /* attach `strace -c` to every new process of a run */
};

/* Returns the settings of a daemon with that configuration, to which they point. `rules` are the
 * compiled `jobs.rules`, or NULL for none. Other callers change the settings in which they differ
 * from a daemon. */
struct engine_settings engine_settings_of(const struct config *config, const struct rules *rules);
