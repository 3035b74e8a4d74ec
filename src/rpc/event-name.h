/* The names of the events that the daemon publishes: `monitor.snapshot`, `sheet.started`. */
#pragma once

#include <stdbool.h>

#define EVENT_NAME_SNAPSHOT        "monitor.snapshot"
#define EVENT_NAME_ANOMALY         "monitor.anomaly"
#define EVENT_NAME_ANOMALY_CLEARED "monitor.anomaly_cleared"
#define EVENT_NAME_GAP             "monitor.gap"

/* Whether `pattern` matches `name`: a pattern is a name, a prefix such as `sheet.*`, or `*`. */
bool event_name_matches(const char *pattern, const char *name);

/* Whether any event matches the pattern. */
bool event_name_exists(const char *pattern);
