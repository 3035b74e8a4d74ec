#include "store/machine-query.h"

#include <errno.h>

#include "store/rows.h"

/* A one-minute average weighs as much as the samples that it replaces. */
#define USE_RANGE(column)                                                                          \
    " min(" column "), sum(" column " * resolution_seconds) /"                                     \
    " sum(CASE WHEN " column " IS NOT NULL THEN resolution_seconds END), max(" column "),"

static const char figures_sql[] =
    "SELECT min(timestamp), max(timestamp), count(*), max(system_memory_total_mb),"
    " max(cpu_count)," USE_RANGE("system_cpu_percent") USE_RANGE("system_memory_used_mb") USE_RANGE(
        "load_avg_1") " max(zombie_count) FROM snapshots WHERE timestamp >= ?1 AND timestamp <= ?2";

/* A minute of folded events that is partly in the range counts whole. */
static const char events_sql[] =
    "SELECT event_type, sum(n) FROM (SELECT event_type, count(*) AS n FROM event"
    "  WHERE timestamp >= ?1 AND timestamp <= ?2 GROUP BY event_type UNION ALL"
    "  SELECT event_type, sum(count) FROM folded_events WHERE last >= ?1 AND first <= ?2"
    "  AND minute BETWEEN CAST(?1 / 60 AS INTEGER) AND CAST(?2 / 60 AS INTEGER)"
    "  GROUP BY event_type) GROUP BY event_type ORDER BY event_type";

/* CPU time only grows: what a process used in the range is its largest value in it minus its
 * largest value before. A process that is older than the first sample counts from that sample on.
 * Its memory is that of the rows in the range, and of the row before if that was still valid. If
 * two writers saw the same process, their figures agree.
 *
 * a, b: first and last tick; m1, s1: the first tick of minutes and of samples; `counts`: whether
 * the memory of a row counts. */
static const char processes_sql[] =
    "WITH span AS (SELECT s.session, e.boot_id, e.folded_tick, min(s.tick) AS a,"
    "  max(COALESCE(s.to_tick, s.tick)) AS b, min(CASE WHEN s.is_minute THEN s.tick END) AS m1,"
    "  min(CASE WHEN NOT s.is_minute THEN s.tick END) AS s1"
    "  FROM snap s JOIN sessions e ON e.id = s.session"
    "  WHERE s.timestamp >= ?1 AND s.timestamp <= ?2 AND s.is_minute = (s.tick < e.full_from)"
    "  GROUP BY s.session),"
    /* a - 1: the row of a process before an exec gives its CPU time before the range */
    " near AS (SELECT p.id, span.* FROM span JOIN proc p ON p.session = span.session"
    "  AND p.last_tick >= a - 1 AND p.first_tick <= b),"
    " late AS (SELECT x.key & 4294967295 AS proc, x.key >> 32 AS tick, x.cpu_seconds AS cpu,"
    "  x.rss_mb AS rss FROM recent x WHERE x.session IN (SELECT session FROM span)),"
    " held AS (SELECT l.proc, max(l.tick) AS tick FROM late l JOIN near n ON n.id = l.proc"
    "  AND l.tick <= s1 GROUP BY l.proc),"
    " row AS ("
    "  SELECT n.id, n.boot_id, a, x.cpu_seconds AS cpu, x.rss_mb AS rss, x.tick < a AS is_before,"
    "   x.tick >= s1 OR (s1 <= folded_tick AND x.tick ="
    "    (SELECT max(h.tick) FROM history h WHERE h.proc = n.id AND h.tick <= s1)) AS counts"
    "   FROM near n JOIN history x ON x.proc = n.id AND x.tick <= b AND x.tick >="
    "    COALESCE((SELECT max(h.tick) FROM history h WHERE h.proc = n.id AND h.tick < s1), 0)"
    "  UNION ALL SELECT n.id, n.boot_id, a, x.cpu_seconds, x.max_rss_mb, x.tick < a,"
    "   x.tick >= m1 OR x.tick ="
    "    (SELECT max(h.tick) FROM minute h WHERE h.proc = n.id AND h.tick <= m1)"
    "   FROM near n JOIN minute x ON x.proc = n.id AND x.tick < COALESCE(s1, b + 1) AND x.tick >="
    "    COALESCE((SELECT max(h.tick) FROM minute h WHERE h.proc = n.id AND h.tick < m1), 0)"
    "   WHERE m1 IS NOT NULL"
    "  UNION ALL SELECT n.id, n.boot_id, a, l.cpu, l.rss, l.tick < a,"
    "   l.tick >= s1 OR l.tick = held.tick FROM late l JOIN near n ON n.id = l.proc"
    "   AND l.tick <= b LEFT JOIN held ON held.proc = l.proc),"
    " used AS (SELECT p.pid AS pid, max(p.id) AS proc,"
    "  max(r.cpu) - COALESCE(max(CASE WHEN is_before THEN r.cpu END),"
    "   CASE WHEN p.start_time >= ?1 * ?4 THEN 0 ELSE min(r.cpu) END) AS cpu,"
    "  max(CASE WHEN counts AND p.last_tick >= a THEN r.rss END) AS rss"
    "  FROM row r JOIN proc p ON p.id = r.id GROUP BY r.boot_id, p.pid, p.start_ticks"
    "  HAVING max(p.last_tick >= a))"
    " SELECT u.pid, (SELECT value FROM text WHERE id = p.command), j.job_id, u.cpu / ?5,"
    "  u.rss / ?6 FROM used u JOIN proc p ON p.id = u.proc LEFT JOIN jobs j ON j.id = p.run"
    " WHERE u.proc IN (SELECT proc FROM used ORDER BY cpu DESC LIMIT ?3)"
    "  OR u.proc IN (SELECT proc FROM used ORDER BY rss DESC LIMIT ?3)"
    " ORDER BY u.cpu DESC, u.rss DESC";

static int prepare(struct database *database, const char *sql, double since, double until,
                   sqlite3_stmt **ret)
{
    int r = database_prepare(database, sql, ret);
    if (r == 0) {
        sqlite3_bind_double(*ret, 1, since);
        sqlite3_bind_double(*ret, 2, until);
    }
    return r;
}

static struct use_range read_range(sqlite3_stmt *row, int at)
{
    return (struct use_range){.min = row_read_real(row, at),
                              .mean = row_read_real(row, at + 1),
                              .max = row_read_real(row, at + 2)};
}

static int read_figures(struct database *database, double since, double until,
                        struct machine_use *ret)
{
    sqlite3_stmt *query = NULL;

    int r = prepare(database, figures_sql, since, until, &query);
    if (r == 0)
        r = database_step(database, query);
    if (r > 0) {
        ret->first = row_read_real(query, 0);
        ret->last = row_read_real(query, 1);
        ret->samples = row_read_int(query, 2);
        ret->system_memory_total_mb = row_read_real(query, 3);
        ret->cpu_count = row_read_real(query, 4);
        ret->system_cpu_percent = read_range(query, 5);
        ret->system_memory_used_mb = read_range(query, 8);
        ret->load_avg_1 = read_range(query, 11);
        ret->max_zombies = row_read_int(query, 14);
    }
    sqlite3_finalize(query);
    return MIN(r, 0);
}

static int read_count(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct tally *tally = item;

    (void)context;
    tally->value = row_read_real(row, 1);
    return row_read_text(row, 0, arena, &tally->name);
}

static int read_use(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct process_use *use = item;

    (void)context;
    use->pid = row_read_int(row, 0);
    use->cpu_seconds = row_read_real(row, 3);
    use->max_rss_mb = row_read_real(row, 4);
    int r = row_read_text(row, 1, arena, &use->command);
    return r < 0 ? r : row_read_text(row, 2, arena, &use->job_id);
}

static void bind_steps(const struct columns *columns, const char *name, sqlite3_stmt *statement,
                       int at)
{
    sqlite3_bind_double(statement, at, columns_find(columns, name)->steps_per_unit);
}

int machine_query(struct database *database, const struct schema *schema, double since,
                  double until, size_t top, struct arena *arena, struct machine_use *ret)
{
    sqlite3_stmt *events = NULL, *processes = NULL;
    struct any_list list = {0};

    record_init(&machine_use_record, ret);
    int r = read_figures(database, since, until, ret);
    if (r == 0)
        r = prepare(database, events_sql, since, until, &events);
    if (r == 0)
        r = rows_collect(database, events, sizeof(struct tally), read_count, NULL, arena, &list);
    ret->event_counts = (struct tally_list){.items = list.items, .count = list.count};
    if (r == 0)
        r = prepare(database, processes_sql, since, until, &processes);
    if (r == 0) {
        sqlite3_bind_int64(processes, 3, (int64_t)top);
        bind_steps(&schema->life, "start_time", processes, 4);
        bind_steps(&schema->sample, "cpu_seconds", processes, 5);
        bind_steps(&schema->sample, "rss_mb", processes, 6);
        r = rows_collect(database, processes, sizeof(struct process_use), read_use, NULL, arena,
                         &list);
    }
    ret->processes = (struct process_use_list){.items = list.items, .count = list.count};
    sqlite3_finalize(events);
    sqlite3_finalize(processes);
    return r;
}
