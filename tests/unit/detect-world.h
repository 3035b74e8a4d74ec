/* A synthetic machine for the tests of the detector: processes that change only when a test changes
 * them, and a clock that the test moves. */
#pragma once

#include "detect/detect-constants.h"
#include "detect/detector.h"

#define WORLD_PROCESSES_MAX 2048
#define WORLD_EVENTS_MAX    16
/* The pid of sonde in this world. */
#define WORLD_DAEMON_PID 50

struct world {
    struct detector *detector;
    struct snapshot snapshot;
    struct process_metric processes[WORLD_PROCESSES_MAX];
    struct process_event events[WORLD_EVENTS_MAX];
    struct process_event_list event_list;
    uint64_t now_ns;
    double wall_offset; /* wall clock minus monotonic clock */

    struct arena arena;
    struct anomaly_list reported; /* at the last tick */
    struct anomaly_list open;     /* after it */
    size_t openings;              /* so far */
    size_t changes;
    size_t clearings;
    int worst; /* highest severity reported so far */
};

/* The built-in configuration. */
struct anomaly_config world_config(void);

/* NULL: the built-in ones. */
struct world *world_new(const struct anomaly_config *config,
                        const struct detect_constants *constants);
void world_free(struct world *world);
void world_freep(struct world **world);

#define _cleanup_world_ __attribute__((cleanup(world_freep)))

/* Adds a quiet, old process; its start time is its pid. Valid until the next is removed. */
struct process_metric *world_add(struct world *world, int64_t pid, const char *command);
struct process_metric *world_find(struct world *world, int64_t pid);
void world_remove(struct world *world, int64_t pid);
void world_put_into_job(struct process_metric *process, const char *job_id, const char *run_id);

/* An event before the next tick. */
struct process_event *world_happen(struct world *world, int event_type, int64_t pid);

/* Advances the clock, then takes and checks a snapshot. Also checks the order of the detector's
 * reports and its count of open episodes. */
void world_tick(struct world *world, double seconds);
void world_ticks(struct world *world, unsigned count, double seconds);

/* The only report of this type at the last tick, or NULL. */
const struct anomaly *world_reported(const struct world *world, const char *type);
const struct anomaly *world_opened(const struct world *world, const char *type);
const struct anomaly *world_cleared(const struct world *world, const char *type);
const struct anomaly *world_open(const struct world *world, const char *type);
