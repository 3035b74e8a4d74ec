#include "top/users.h"

#include <pwd.h>
#include <stddef.h>
#include <sys/types.h>

const char *users_find(struct users *users, int64_t uid)
{
    static char none;
    char *name = map_get(&users->by_uid, (uint64_t)uid);

    if (!name) {
        const struct passwd *entry = getpwuid((uid_t)uid);
        name = entry ? arena_strdup(&users->arena, entry->pw_name) : &none;
        if (!name || map_put(&users->by_uid, (uint64_t)uid, name) < 0)
            return NULL;
    }
    return name == &none ? NULL : name;
}

void users_done(struct users *users)
{
    map_done(&users->by_uid);
    arena_done(&users->arena);
}
