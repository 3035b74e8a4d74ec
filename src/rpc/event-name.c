#include "rpc/event-name.h"

#include <string.h>

#include "base/macros.h"

static const char *const names[] = {
    EVENT_NAME_SNAPSHOT, EVENT_NAME_ANOMALY, EVENT_NAME_ANOMALY_CLEARED,
    EVENT_NAME_GAP,      "process.spawn",    "process.exec",
    "process.exit",      "process.signal",   "process.kill",
    "process.oom",       "job.started",      "job.progress",
    "job.finished",      "sheet.started",    "sheet.completed",
    "sheet.failed",
};

bool event_name_matches(const char *pattern, const char *name)
{
    const char *star = strchr(pattern, '*');

    return star ? strncmp(pattern, name, (size_t)(star - pattern)) == 0
                : strcmp(pattern, name) == 0;
}

bool event_name_exists(const char *pattern)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (event_name_matches(pattern, names[i]))
            return true;
    return false;
}
