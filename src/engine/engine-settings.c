#include "engine/engine-settings.h"

struct engine_settings engine_settings_of(const struct config *config, const struct rules *rules)
{
    return (struct engine_settings){
        .interval_ns = (uint64_t)(config->interval_seconds * 1e9),
        .scope = config->scope,
        .anomaly = &config->anomaly,
        .limits = &config->limits,
        .rules = rules,
        .linger_ns = (uint64_t)(config->jobs.linger_seconds * 1e9),
        .syscalls = config->syscalls,
        .gpus = config->gpu_enabled,
        .redact = &config->redact,
        .traces_members = config_traces_members(config),
    };
}
