#include "writer/store-message.h"

#include <errno.h>
#include <stdlib.h>

#include "model/record-copy.h"

static struct store_message *message_new(enum store_message_kind kind)
{
    struct store_message *message = calloc(1, sizeof(*message));

    if (message)
        message->kind = kind;
    return message;
}

struct store_message *store_message_of_tick(struct tick_box *box)
{
    struct store_message *message = message_new(STORE_MESSAGE_TICK);

    if (message)
        message->box = box;
    return message;
}

struct store_message *store_message_of_job(enum store_message_kind kind, const struct job *job)
{
    struct store_message *message = message_new(kind);

    if (message && record_copy(&job_record, job, &message->arena, &message->job) < 0) {
        store_message_free(message);
        return NULL;
    }
    return message;
}

struct store_message *store_message_of_sheet(const struct sheet *sheet)
{
    struct store_message *message = message_new(STORE_MESSAGE_SHEET);

    if (message && record_copy(&sheet_record, sheet, &message->arena, &message->sheet) < 0) {
        store_message_free(message);
        return NULL;
    }
    return message;
}

struct store_message *store_message_of_settings(const struct retention_config *retention)
{
    struct store_message *message = message_new(STORE_MESSAGE_CONFIGURE);

    if (message)
        message->retention = *retention;
    return message;
}

static int copy_patterns(const struct pattern_list *from, struct arena *arena,
                         struct pattern_list *into)
{
    int r = 0;

    into->items = arena_alloc(arena, (from->count + 1) * sizeof(*into->items));
    if (!into->items)
        return -ENOMEM;
    for (; into->count < from->count && r == 0; into->count++)
        r = record_copy(&pattern_record, &from->items[into->count], arena,
                        &into->items[into->count]);
    return r;
}

struct store_message *store_message_of_patterns(const char *pattern_type,
                                                const struct pattern_list *patterns)
{
    struct store_message *message = message_new(STORE_MESSAGE_PATTERNS);

    if (!message)
        return NULL;
    message->pattern_type = arena_strdup(&message->arena, pattern_type);
    if (!message->pattern_type ||
        copy_patterns(patterns, &message->arena, &message->patterns) < 0) {
        store_message_free(message);
        return NULL;
    }
    return message;
}

void store_message_free(struct store_message *message)
{
    if (!message)
        return;
    tick_box_free(message->box);
    arena_done(&message->arena);
    free(message);
}

size_t store_message_bytes(const struct store_message *message)
{
    return sizeof(*message) + arena_bytes(&message->arena);
}

bool store_message_is_droppable(const struct store_message *message)
{
    return message->kind == STORE_MESSAGE_TICK || message->kind == STORE_MESSAGE_PATTERNS;
}

int store_message_write(struct store_message *message, struct store *store)
{
    struct job job = message->job;

    switch (message->kind) {
    case STORE_MESSAGE_TICK: return store_write_tick(store, &message->box->tick);
    case STORE_MESSAGE_BEGIN_JOB: return store_begin_job(store, &message->job, message->job_id);
    case STORE_MESSAGE_FINISH_JOB:
        job.job_id = NULL; /* the store may have given the run another name */
        return store_finish_job(store, &job);
    case STORE_MESSAGE_SHEET: return store_write_sheet(store, &message->sheet);
    case STORE_MESSAGE_PATTERNS:
        return store_renew_patterns(store, message->pattern_type, &message->patterns);
    case STORE_MESSAGE_CONFIGURE: store_configure(store, &message->retention); return 0;
    }
    return -EINVAL;
}
