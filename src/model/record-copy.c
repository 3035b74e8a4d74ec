#include "model/record-copy.h"

#include <errno.h>
#include <string.h>

/* Replaces everything that the object points to by copies in the arena. */
static int own_fields(const struct record *record, void *object, struct arena *arena);

static int own_text(const char **text, struct arena *arena)
{
    if (*text && !(*text = arena_strdup(arena, *text)))
        return -ENOMEM;
    return 0;
}

/* Returns NULL if out of memory. An empty list gets an address, because NULL means unknown. */
static void *copy_items(const void *items, size_t count, size_t item_size, struct arena *arena)
{
    void *copy = arena_alloc(arena, count ? count * item_size : 1);

    return copy ? memcpy(copy, items, count * item_size) : NULL;
}

static int own_records(struct any_list *list, const struct record *record, struct arena *arena)
{
    int r = 0;

    if (list->items && !(list->items = copy_items(list->items, list->count, record->size, arena)))
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < list->count; i++)
        r = own_fields(record, (char *)list->items + i * record->size, arena);
    return r;
}

static int own_ints(struct int_list *list, struct arena *arena)
{
    if (list->items &&
        !(list->items = copy_items(list->items, list->count, sizeof(*list->items), arena)))
        return -ENOMEM;
    return 0;
}

static int own_texts(struct text_list *list, struct arena *arena)
{
    int r = 0;

    if (list->items &&
        !(list->items = copy_items(list->items, list->count, sizeof(*list->items), arena)))
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < list->count; i++)
        r = own_text(&list->items[i], arena);
    return r;
}

static int own_tally(struct tally_list *list, struct arena *arena)
{
    int r = 0;

    if (list->items &&
        !(list->items = copy_items(list->items, list->count, sizeof(*list->items), arena)))
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < list->count; i++)
        r = own_text(&list->items[i].name, arena);
    return r;
}

static int own_field(const struct field *field, void *member, struct arena *arena)
{
    switch (field->type) {
    case FIELD_INT:
    case FIELD_REAL:
    case FIELD_CHAR:
    case FIELD_ENUM:
    case FIELD_BOOL: return 0;
    case FIELD_TEXT: return own_text(member, arena);
    case FIELD_RECORD:
    case FIELD_INLINE: return own_fields(field->record, member, arena);
    case FIELD_RECORDS:
    case FIELD_KEYED: return own_records(member, field->record, arena);
    case FIELD_INTS: return own_ints(member, arena);
    case FIELD_TEXTS: return own_texts(member, arena);
    case FIELD_TALLY: return own_tally(member, arena);
    }
    return 0;
}

static int own_fields(const struct record *record, void *object, struct arena *arena)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < record->field_count; i++)
        r = own_field(&record->fields[i], (char *)object + record->fields[i].offset, arena);
    return r;
}

int record_copy(const struct record *record, const void *from, struct arena *arena, void *into)
{
    memcpy(into, from, record->size);
    return own_fields(record, into, arena);
}

int text_list_copy(const struct text_list *from, struct arena *arena, struct text_list *into)
{
    *into = *from;
    return own_texts(into, arena);
}
