#include "top/timeline.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct headline *a, const struct headline *b)
{
    return a->timestamp == b->timestamp && a->pid == b->pid && a->name == b->name &&
           strcmp(a->label, b->label) == 0 && strcmp(a->text, b->text) == 0;
}

static void drop_oldest(struct timeline *timeline)
{
    free(timeline->items.items[0]);
    timeline->items.count--;
    memmove(timeline->items.items, timeline->items.items + 1,
            timeline->items.count * sizeof(*timeline->items.items));
}

void timeline_add(struct timeline *timeline, struct headline *headline)
{
    size_t at = timeline->items.count;

    /* Searches from the end, because most headlines come in order. */
    while (at && timeline->items.items[at - 1]->timestamp > headline->timestamp)
        at--;
    for (size_t i = at; i-- > 0 && timeline->items.items[i]->timestamp == headline->timestamp;)
        if (is_same(timeline->items.items[i], headline)) {
            free(headline);
            return;
        }
    if (VEC_PUSH(&timeline->items, headline) < 0) {
        free(headline);
        return;
    }
    memmove(&timeline->items.items[at + 1], &timeline->items.items[at],
            (timeline->items.count - 1 - at) * sizeof(*timeline->items.items));
    timeline->items.items[at] = headline;
    if (timeline->items.count > TIMELINE_KEPT)
        drop_oldest(timeline);
}

void timeline_clear(struct timeline *timeline)
{
    while (timeline->items.count)
        free(timeline->items.items[--timeline->items.count]);
}

void timeline_done(struct timeline *timeline)
{
    timeline_clear(timeline);
    VEC_DONE(&timeline->items);
}
