#include "store/inherited-processes.h"

#include <errno.h>
#include <stdlib.h>

#include "store/rows.h"

void counted_process_merge(struct counted_process *counted, const struct counted_process *other)
{
    counted->is_counted = true;
    counted->run = other->run;
    for (size_t i = 0; i < COUNTERS; i++)
        counted->counters[i] = MAX(counted->counters[i], other->counters[i]);
}

/* A pid has at most 22 bits. Forged values may collide, so that find() compares both. */
static uint64_t identity(int64_t pid, uint64_t start_ticks)
{
    return start_ticks << 22 ^ (uint64_t)pid;
}

static struct inherited_process *find(const struct inherited_processes *processes, int64_t pid,
                                      uint64_t start_ticks)
{
    struct inherited_process *process =
        map_get(&processes->by_identity, identity(pid, start_ticks));

    return process && process->pid == pid && process->start_ticks == start_ticks ? process : NULL;
}

static int add(struct inherited_processes *processes, const struct inherited_process *found)
{
    struct inherited_process *process = find(processes, found->pid, found->start_ticks);

    if (process) {
        counted_process_merge(&process->counted, &found->counted);
        return 0;
    }
    process = malloc(sizeof(*process));
    if (!process)
        return -ENOMEM;
    uint64_t key = identity(found->pid, found->start_ticks);
    struct inherited_process *other = map_get(&processes->by_identity, key);
    *process = *found;
    int r = map_put(&processes->by_identity, key, process);
    free(r < 0 ? process : other);
    return r;
}

/* The last known value of a counter that was added to the run: from `recent` if it has changed
 * since the last fold, else from `history`, or from `minute` if retention has deleted the samples.
 */
#define LAST_KNOWN(column)                                                                         \
    "COALESCE((SELECT r." column " FROM snap q JOIN recent r ON r.key = (q.tick << 32) | p.id"     \
    " WHERE q.session = p.session AND q.is_minute = 0 AND q.tick > (SELECT e.folded_tick FROM"     \
    " sessions e WHERE e.id = p.session) AND q.tick <= t.figures_tick AND r." column               \
    " IS NOT NULL ORDER BY q.tick DESC LIMIT 1), (SELECT h." column " FROM history h"              \
    " WHERE h.proc = p.id AND h.tick <= t.figures_tick AND h." column " IS NOT NULL"               \
    " ORDER BY h.tick DESC LIMIT 1), (SELECT m." column " FROM minute m WHERE m.proc = p.id"       \
    " AND m.tick <= t.figures_tick AND m." column " IS NOT NULL ORDER BY m.tick DESC LIMIT 1), 0)"

/* The plus keeps SQLite from using the index on run: few processes are alive at the end, but a run
 * may have had very many. */
/* clang-format off */
static const char alive_sql[] =
    "SELECT p.pid, p.start_ticks, "
    LAST_KNOWN("cpu_seconds") ", " LAST_KNOWN("read_bytes") ", " LAST_KNOWN("write_bytes")
    " FROM turns t JOIN proc p ON p.session = t.session AND +p.run = t.run AND p.last_tick >="
    " (SELECT COALESCE(s.to_tick, s.tick) FROM snap s WHERE s.session = t.session"
    "  ORDER BY s.tick DESC LIMIT 1)"
    " WHERE t.run = ?1 AND t.session <> ?2";
/* clang-format on */

int inherited_processes_load(struct inherited_processes *processes, struct database *database,
                             int64_t run, int64_t own_session)
{
    sqlite3_stmt *rows = NULL;

    int r = database_prepare(database, alive_sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_int64(rows, 1, run);
    sqlite3_bind_int64(rows, 2, own_session);
    while ((r = database_step(database, rows)) > 0) {
        struct inherited_process process = {.pid = row_read_int(rows, 0),
                                            .start_ticks = (uint64_t)sqlite3_column_int64(rows, 1),
                                            .counted = {.is_counted = true, .run = run}};
        for (int i = 0; i < COUNTERS; i++)
            process.counted.counters[i] = sqlite3_column_int64(rows, i + 2);
        r = add(processes, &process);
        if (r < 0)
            break;
    }
    sqlite3_finalize(rows);
    return r == -ENOMEM ? database_fail_errno(database, r) : r;
}

const struct counted_process *inherited_processes_find(struct inherited_processes *processes,
                                                       int64_t pid, uint64_t start_ticks)
{
    struct inherited_process *process = find(processes, pid, start_ticks);

    if (!process)
        return NULL;
    process->was_found = processes->were_found = true;
    return &process->counted;
}

struct inherited_process *inherited_processes_next(const struct inherited_processes *processes,
                                                   size_t *position)
{
    return map_next(&processes->by_identity, position);
}

void inherited_processes_commit(struct inherited_processes *processes)
{
    size_t position = 0;
    struct inherited_process *process;

    while (processes->were_found && (process = inherited_processes_next(processes, &position)))
        if (process->was_found) {
            map_remove(&processes->by_identity, identity(process->pid, process->start_ticks));
            free(process);
            position--; /* map_remove() may have moved another entry here */
        }
    processes->were_found = false;
}

void inherited_processes_reset(struct inherited_processes *processes)
{
    size_t position = 0;
    struct inherited_process *process;

    while (processes->were_found && (process = inherited_processes_next(processes, &position)))
        process->was_found = false;
    processes->were_found = false;
}

void inherited_processes_done(struct inherited_processes *processes)
{
    map_done_free(&processes->by_identity);
    processes->were_found = false;
}
