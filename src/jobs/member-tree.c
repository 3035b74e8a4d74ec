#include "jobs/member-tree.h"

static bool is_ancestor(const struct member_entry *entry, const struct member_entry *of)
{
    while (of && of != entry)
        of = of->parent;
    return of != NULL;
}

void member_tree_join(struct member_entry *entry, struct member_entry *parent)
{
    if (!parent || parent == entry)
        return;
    if (!LIST_EMPTY(&entry->children) && is_ancestor(entry, parent))
        return;
    entry->parent = parent;
    LIST_INSERT_HEAD(&parent->children, entry, siblings);
}

void member_tree_leave(struct member_entry *entry)
{
    struct member_entry *child;

    if (entry->parent)
        LIST_REMOVE(entry, siblings);
    while ((child = LIST_FIRST(&entry->children))) {
        LIST_REMOVE(child, siblings);
        child->parent = entry->parent;
        if (child->parent)
            LIST_INSERT_HEAD(&child->parent->children, child, siblings);
    }
}

static struct member_entry *next_below(const struct member_entry *top, struct member_entry *at,
                                       bool descends)
{
    if (descends && !LIST_EMPTY(&at->children))
        return LIST_FIRST(&at->children);
    for (; at != top; at = at->parent)
        if (LIST_NEXT(at, siblings))
            return LIST_NEXT(at, siblings);
    return NULL;
}

struct member_entry *member_tree_next_inherited(const struct member_entry *top,
                                                struct member_entry *at, const struct run *run,
                                                int64_t sheet_num)
{
    bool descends = true;

    do {
        at = next_below(top, at, descends);
        descends =
            at && !at->is_registered && at->member.run == run && at->member.sheet_num == sheet_num;
    } while (at && !descends);
    return at;
}
