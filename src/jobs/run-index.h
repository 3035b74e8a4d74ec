/* The runs in progress, by age, run id and job id. Used only by the registry, which stores its own
 * data about a run in the same entry. */
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "jobs/run.h"

enum run_key {
    RUN_BY_RUN_ID,
    RUN_BY_JOB_ID,
    RUN_KEYS,
};

struct foster;
struct member_entry;

struct run_entry {
    struct run run; /* the public part; first, so that the entry can be found from it */

    TAILQ_HEAD(, member_entry) members;
    LIST_HEAD(, run_entry) inner; /* runs that were started in it */
    LIST_ENTRY(run_entry) siblings;
    struct foster *foster; /* NULL: none */
    uint64_t root_ticks;   /* start of its first process; 0: not known */
    int64_t sheet_num;     /* the step of all registered processes; INT_UNKNOWN: several, or none */
    bool has_registered;   /* a process was registered, possibly before a restart of the daemon */

    /* used by the index */
    TAILQ_ENTRY(run_entry) neighbours;
    uint64_t hashes[RUN_KEYS];
    struct run_entry *same_hash[RUN_KEYS]; /* the previous entry with the same hash */
};

struct run_index {
    struct map by_key[RUN_KEYS]; /* hash → the latest struct run_entry */
    TAILQ_HEAD(, run_entry) by_age;
    size_t count;
};

void run_index_init(struct run_index *index);
void run_index_done(struct run_index *index);

/* Adds an entry, which the caller still owns. Returns 0, or -ENOMEM with the index unchanged. */
int run_index_add(struct run_index *index, struct run_entry *entry);
void run_index_remove(struct run_index *index, struct run_entry *entry);

/* Returns the latest run with that id, of that user (INT_UNKNOWN: of any user), or NULL. */
struct run_entry *run_index_find(const struct run_index *index, enum run_key key, const char *text,
                                 int64_t uid);
