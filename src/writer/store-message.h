/* One message for the store. It owns all its data, so that it can wait in a queue. */
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
    struct retention_config retention;
    const char *pattern_type;
    struct pattern_list patterns;
    struct arena arena;                     /* owns the texts and lists */
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* the name that the store gave to a run that began */
};

/* Make a message; NULL without memory. A tick's message takes ownership of the box, unless it is
 * NULL; the others copy their arguments. */
struct store_message *store_message_of_tick(struct tick_box *box);
struct store_message *store_message_of_job(enum store_message_kind kind, const struct job *job);
struct store_message *store_message_of_sheet(const struct sheet *sheet);
struct store_message *store_message_of_settings(const struct retention_config *retention);
struct store_message *store_message_of_patterns(const char *pattern_type,
                                                const struct pattern_list *patterns);
/* NULL is allowed. */
void store_message_free(struct store_message *message);

/* Returns the size of the message in memory, without the box. */
size_t store_message_bytes(const struct store_message *message);

/* Returns whether the message may be dropped if it cannot be written: later messages replace it. */
bool store_message_is_droppable(const struct store_message *message);

/* Writes the message. Returns what the called function of the store returns. */
int store_message_write(struct store_message *message, struct store *store);
