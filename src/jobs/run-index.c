#include "jobs/run-index.h"

#include <string.h>

#include "base/hash.h"

static const char *text_of(const struct run_entry *entry, enum run_key key)
{
    return key == RUN_BY_RUN_ID ? entry->run.run_id : entry->run.job_id;
}

void run_index_init(struct run_index *index)
{
    *index = (struct run_index){.count = 0};
    TAILQ_INIT(&index->by_age);
}

void run_index_done(struct run_index *index)
{
    for (int key = 0; key < RUN_KEYS; key++)
        map_done(&index->by_key[key]);
}

static int chain(struct run_index *index, enum run_key key, struct run_entry *entry)
{
    uint64_t hash = hash_text(text_of(entry, key));
    struct run_entry *earlier = map_get(&index->by_key[key], hash);

    int r = map_put(&index->by_key[key], hash, entry);
    if (r < 0)
        return r;
    entry->hashes[key] = hash;
    entry->same_hash[key] = earlier;
    return 0;
}

static void unchain(struct run_index *index, enum run_key key, struct run_entry *entry)
{
    struct map *map = &index->by_key[key];
    struct run_entry *at = map_get(map, entry->hashes[key]);

    if (at == entry) {
        map_remove(map, entry->hashes[key]);
        /* This cannot fail: the removal has made room. */
        if (entry->same_hash[key])
            map_put(map, entry->hashes[key], entry->same_hash[key]);
        return;
    }
    while (at && at->same_hash[key] != entry)
        at = at->same_hash[key];
    if (at)
        at->same_hash[key] = entry->same_hash[key];
}

int run_index_add(struct run_index *index, struct run_entry *entry)
{
    int r = chain(index, RUN_BY_RUN_ID, entry);
    if (r < 0)
        return r;
    r = chain(index, RUN_BY_JOB_ID, entry);
    if (r < 0) {
        unchain(index, RUN_BY_RUN_ID, entry);
        return r;
    }
    TAILQ_INSERT_TAIL(&index->by_age, entry, neighbours);
    index->count++;
    return 0;
}

void run_index_remove(struct run_index *index, struct run_entry *entry)
{
    for (int key = 0; key < RUN_KEYS; key++)
        unchain(index, (enum run_key)key, entry);
    TAILQ_REMOVE(&index->by_age, entry, neighbours);
    index->count--;
}

struct run_entry *run_index_find(const struct run_index *index, enum run_key key, const char *text,
                                 int64_t uid)
{
    struct run_entry *entry = map_get(&index->by_key[key], hash_text(text));
    bool is_any_user = !int_is_known(uid);

    /* Clients choose job ids and may cause collisions, so the texts are compared too. */
    while (entry &&
           ((!is_any_user && entry->run.uid != uid) || strcmp(text_of(entry, key), text) != 0))
        entry = entry->same_hash[key];
    return entry;
}
