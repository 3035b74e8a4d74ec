#include "store/past-lives.h"

#include <errno.h>
#include <stdlib.h>

#include "store/rows.h"

void past_add(struct past *past, const struct past *other)
{
    past->is_there = true;
    past->run = other->run;
    for (size_t i = 0; i < COUNTERS; i++)
        past->counters[i] = MAX(past->counters[i], other->counters[i]);
}

/* Pids have 22 bits at most; what is forged may collide, and is looked at again. */
static uint64_t identity(int64_t pid, uint64_t start_ticks)
{
    return start_ticks << 22 ^ (uint64_t)pid;
}

static struct past_life *find(const struct past_lives *lives, int64_t pid, uint64_t start_ticks)
{
    struct past_life *life = map_get(&lives->by_identity, identity(pid, start_ticks));

    return life && life->pid == pid && life->start_ticks == start_ticks ? life : NULL;
}

static int add(struct past_lives *lives, const struct past_life *found)
{
    struct past_life *life = find(lives, found->pid, found->start_ticks);

    if (life) {
        past_add(&life->past, &found->past);
        return 0;
    }
    life = malloc(sizeof(*life));
    if (!life)
        return -ENOMEM;
    uint64_t key = identity(found->pid, found->start_ticks);
    struct past_life *other = map_get(&lives->by_identity, key);
    *life = *found;
    int r = map_put(&lives->by_identity, key, life);
    free(r < 0 ? life : other);
    return r;
}

/* A counter as it was last known when it was last added up: in `recent` if it has changed since the
 * fold, else in `history`, or in `minute` if that is gone. */
#define LAST_KNOWN(column)                                                                         \
    "COALESCE((SELECT r." column " FROM snap q JOIN recent r ON r.key = (q.tick << 32) | p.id"     \
    " WHERE q.session = p.session AND q.is_minute = 0 AND q.tick > (SELECT e.folded_tick FROM"     \
    " sessions e WHERE e.id = p.session) AND q.tick <= t.figures_tick AND r." column               \
    " IS NOT NULL ORDER BY q.tick DESC LIMIT 1), (SELECT h." column " FROM history h"              \
    " WHERE h.proc = p.id AND h.tick <= t.figures_tick AND h." column " IS NOT NULL"               \
    " ORDER BY h.tick DESC LIMIT 1), (SELECT m." column " FROM minute m WHERE m.proc = p.id"       \
    " AND m.tick <= t.figures_tick AND m." column " IS NOT NULL ORDER BY m.tick DESC LIMIT 1), 0)"

/* The plus makes it look for who was alive, which are few, and not for all that the run ever had.
 */
/* clang-format off */
static const char alive_sql[] =
    "SELECT p.pid, p.start_ticks, "
    LAST_KNOWN("cpu_seconds") ", " LAST_KNOWN("read_bytes") ", " LAST_KNOWN("write_bytes")
    " FROM turns t JOIN proc p ON p.session = t.session AND +p.run = t.run AND p.last_tick >="
    " (SELECT COALESCE(s.to_tick, s.tick) FROM snap s WHERE s.session = t.session"
    "  ORDER BY s.tick DESC LIMIT 1)"
    " WHERE t.run = ?1 AND t.session <> ?2";
/* clang-format on */

int past_lives_load(struct past_lives *lives, struct database *database, int64_t run,
                    int64_t own_session)
{
    sqlite3_stmt *rows = NULL;

    int r = database_prepare(database, alive_sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_int64(rows, 1, run);
    sqlite3_bind_int64(rows, 2, own_session);
    while ((r = database_step(database, rows)) > 0) {
        struct past_life life = {.pid = row_read_int(rows, 0),
                                 .start_ticks = (uint64_t)sqlite3_column_int64(rows, 1),
                                 .past = {.is_there = true, .run = run}};
        for (int i = 0; i < COUNTERS; i++)
            life.past.counters[i] = sqlite3_column_int64(rows, i + 2);
        r = add(lives, &life);
        if (r < 0)
            break;
    }
    sqlite3_finalize(rows);
    return r == -ENOMEM ? database_fail_with(database, r, "no memory left") : r;
}

const struct past *past_lives_find(struct past_lives *lives, int64_t pid, uint64_t start_ticks)
{
    struct past_life *life = find(lives, pid, start_ticks);

    if (!life)
        return NULL;
    life->was_found = lives->were_found = true;
    return &life->past;
}

struct past_life *past_lives_next(const struct past_lives *lives, size_t *position)
{
    return map_next(&lives->by_identity, position);
}

void past_lives_commit(struct past_lives *lives)
{
    size_t position = 0;
    struct past_life *life;

    while (lives->were_found && (life = past_lives_next(lives, &position)))
        if (life->was_found) {
            map_remove(&lives->by_identity, identity(life->pid, life->start_ticks));
            free(life);
            position--; /* another may have moved into its place */
        }
    lives->were_found = false;
}

void past_lives_reset(struct past_lives *lives)
{
    size_t position = 0;
    struct past_life *life;

    while (lives->were_found && (life = past_lives_next(lives, &position)))
        life->was_found = false;
    lives->were_found = false;
}

void past_lives_done(struct past_lives *lives)
{
    size_t position = 0;
    struct past_life *life;

    while ((life = past_lives_next(lives, &position)))
        free(life);
    map_done(&lives->by_identity);
    lives->were_found = false;
}
