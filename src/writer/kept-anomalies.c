#include "writer/kept-anomalies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "model/record-copy.h"

void kept_anomalies_done(struct kept_anomalies *kept)
{
    VEC_DONE(kept);
    arena_done(&kept->arena);
    kept->replaced = 0;
}

/* Compares the columns that identify an episode in the store. */
static bool is_same_episode(const struct anomaly *a, const struct anomaly *b)
{
    return a->timestamp == b->timestamp && a->pid == b->pid &&
           text_is_same(a->anomaly_type, b->anomaly_type) && text_is_same(a->run_id, b->run_id);
}

static int copy_all(const struct anomaly *from, size_t count, struct arena *arena,
                    struct anomaly *into)
{
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = record_copy(&anomaly_record, &from[i], arena, &into[i]);
    return r;
}

/* Drops unused texts, so that episodes that change while a disk is full do not fill the memory. */
static int compact(struct kept_anomalies *kept)
{
    struct anomaly *items = malloc(kept->capacity * sizeof(*items));
    struct arena arena = {0};

    int r = items ? copy_all(kept->items, kept->count, &arena, items) : -ENOMEM;
    if (r < 0) {
        free(items);
        arena_done(&arena);
        return r;
    }
    free(kept->items);
    arena_done(&kept->arena);
    kept->items = items;
    kept->arena = arena;
    kept->replaced = 0;
    return 0;
}

static int replace_anomaly(struct kept_anomalies *kept, struct anomaly *older,
                           const struct anomaly *newer)
{
    struct anomaly copy;

    if (kept->replaced >= KEPT_ANOMALIES_MAX) {
        size_t at = (size_t)(older - kept->items);
        int r = compact(kept);
        if (r < 0)
            return r;
        older = &kept->items[at];
    }
    int r = record_copy(&anomaly_record, newer, &kept->arena, &copy);
    if (r < 0)
        return r;
    copy.is_opening = copy.is_opening || older->is_opening;
    *older = copy;
    kept->replaced++;
    return 0;
}

static int add_anomaly(struct kept_anomalies *kept, const struct anomaly *newer)
{
    struct anomaly copy;

    for (size_t i = 0; i < kept->count; i++)
        if (is_same_episode(&kept->items[i], newer))
            return replace_anomaly(kept, &kept->items[i], newer);
    if (kept->count >= KEPT_ANOMALIES_MAX)
        return -ENOBUFS;
    int r = record_copy(&anomaly_record, newer, &kept->arena, &copy);
    return r < 0 ? r : VEC_PUSH(kept, copy);
}

size_t kept_anomalies_add(struct kept_anomalies *kept, const struct anomaly_list *anomalies)
{
    size_t lost = 0;

    for (size_t i = 0; i < anomalies->count; i++)
        lost += add_anomaly(kept, &anomalies->items[i]) < 0;
    return lost;
}

void kept_anomalies_move(struct kept_anomalies *kept, struct tick_box *box)
{
    struct anomaly_list *own = &box->tick.anomalies;

    if (!kept->count)
        return;
    struct anomaly *all =
        arena_alloc(&box->arena, (kept->count + own->count) * sizeof(own->items[0]));
    if (!all || copy_all(kept->items, kept->count, &box->arena, all) < 0)
        return;
    if (own->count)
        memcpy(all + kept->count, own->items, own->count * sizeof(own->items[0]));
    *own = (struct anomaly_list){.items = all, .count = kept->count + own->count};
    kept_anomalies_done(kept);
}
