/* The runs that go on, oldest first, and by the texts that name them. For the registry alone, which
 * keeps what else it knows of a run in the same place. */
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
    struct run run; /* what others see; first, so that it can be found by that */

    TAILQ_HEAD(, member_entry) members;
    LIST_HEAD(, run_entry) inner; /* runs that were started in it */
    LIST_ENTRY(run_entry) siblings;
    struct foster *foster; /* NULL: none */
    uint64_t root_ticks;   /* when its first process started; 0: not known */
    int64_t sheet_num;   /* of all processes that were registered; INT_UNKNOWN: several, or none */
    bool has_registered; /* any process, in this life or an earlier one */

    /* of the index */
    TAILQ_ENTRY(run_entry) neighbours;
    uint64_t hashes[RUN_KEYS];
    struct run_entry *same_hash[RUN_KEYS]; /* the one before it */
};

struct run_index {
    struct map by_key[RUN_KEYS]; /* hash → the latest struct run_entry */
    TAILQ_HEAD(, run_entry) by_age;
    size_t count;
};

void run_index_init(struct run_index *index);
void run_index_done(struct run_index *index);

/* The entry stays the caller's. 0 or -ENOMEM, with the index as it was. */
int run_index_add(struct run_index *index, struct run_entry *entry);
void run_index_remove(struct run_index *index, struct run_entry *entry);

/* The latest with that text, of that user (INT_UNKNOWN: of anybody); NULL: none. */
struct run_entry *run_index_find(const struct run_index *index, enum run_key key, const char *text,
                                 int64_t uid);
