/* One thing that the store is to keep, whole, so that it can wait in a queue. */
#pragma once

#include <sys/queue.h>

#include "model/tick-box.h"
#include "store/store.h"

enum store_message_kind {
    STORE_MESSAGE_TICK,
    STORE_MESSAGE_BEGIN_JOB,
    STORE_MESSAGE_FINISH_JOB,
    STORE_MESSAGE_SHEET,
    STORE_MESSAGE_CONFIGURE,
    STORE_MESSAGE_PATTERNS,
};

struct store_message {
    TAILQ_ENTRY(store_message) neighbours;
    enum store_message_kind kind;
    struct tick_box *box;
    struct job job;
    struct sheet sheet;
    struct text_list redact;
    struct retention_config retention;
    const char *pattern_type;
    struct pattern_list patterns;
    struct arena arena;                     /* holds what these point to */
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* as the store has called a run that began */
};

/* Takes the box over if there is memory; copies the others with all that they point to. NULL
 * without memory. */
struct store_message *store_message_of_tick(struct tick_box *box);
struct store_message *store_message_of_job(enum store_message_kind kind, const struct job *job);
struct store_message *store_message_of_sheet(const struct sheet *sheet);
/* Must outlive the store, or the next one of its kind, once it is written. */
struct store_message *store_message_of_settings(const struct text_list *redact,
                                                const struct retention_config *retention);
struct store_message *store_message_of_patterns(const char *pattern_type,
                                                const struct pattern_list *patterns);
/* NULL is fine. */
void store_message_free(struct store_message *message);

/* What it takes of the memory, its box left out. */
size_t store_message_bytes(const struct store_message *message);

/* Whether the rest goes on without it, if it cannot be written: there will be more like it. */
bool store_message_may_be_lost(const struct store_message *message);

/* As the calls of the store return. */
int store_message_write(struct store_message *message, struct store *store);
