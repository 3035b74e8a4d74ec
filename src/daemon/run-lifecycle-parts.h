/* Private to run-lifecycle*.c. */
#pragma once

#include "daemon/run-lifecycle.h"
#include "model/event-name.h"

/* NULL: the run has no entry, because there was no memory for it. */
struct lifecycle_entry *lifecycle_find_entry(const struct daemon *daemon, const struct run *run);

/* Frees the entry and the run. */
void lifecycle_forget(struct daemon *daemon, struct run *run);

/* Stores the figures of the steps that are active when their run ends, and ends them. `was_read`:
 * engine_read_run() has just succeeded. */
void lifecycle_end_sheets(struct daemon *daemon, struct run *run, bool was_read);

/* Whether the store's queue has room for a new run or step. The end of a run is always accepted. */
bool lifecycle_has_room(const struct daemon *daemon);

/* Publishes an event of a run; `data` is JSON. */
void lifecycle_publish(struct daemon *daemon, enum event_name event, const struct run *run,
                       int64_t sheet_num, const struct text *data);
/* Publishes the start or end of a run. */
void lifecycle_publish_job(struct daemon *daemon, enum event_name event, const struct run *run,
                           const struct job *job);
