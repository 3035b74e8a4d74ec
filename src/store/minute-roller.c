#include "store/minute-roller.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* ---- sums ---- */

static struct roll *roll_new(uint64_t key, const struct columns *columns)
{
    struct roll *roll = calloc(1, sizeof(*roll) + columns->count * sizeof(roll->cells[0]));
    if (roll) {
        roll->key = key;
        roll->max_cpu = roll->max_rss = INT_UNKNOWN;
    }
    return roll;
}

static void roll_add(struct roll *roll, const struct columns *columns, const int64_t *codes,
                     int64_t ticks)
{
    for (size_t i = 0; i < columns->count; i++) {
        struct roll_cell *cell = &roll->cells[i];
        int64_t more;
        if (int_is_known(codes[i])) {
            cell->count += ticks;
            /* Sums of real values fit; a forged value must not overflow. */
            if (__builtin_mul_overflow(codes[i], ticks, &more) ||
                __builtin_add_overflow(cell->sum, more, &cell->sum)) {
                cell->sum = codes[i];
                cell->count = 1;
            }
        }
        cell->last = codes[i];
    }
    roll->is_touched = true;
}

static int64_t roll_value(const struct roll *roll, const struct columns *columns, size_t i)
{
    const struct roll_cell *cell = &roll->cells[i];

    if (columns->items[i].field->rollup == ROLLUP_LAST)
        return cell->last;
    return cell->count ? (int64_t)llround((double)cell->sum / (double)cell->count) : INT_UNKNOWN;
}

static void roll_restart(struct roll *roll, const struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        roll->cells[i].sum = 0;
        roll->cells[i].count = 0;
    }
    roll->max_cpu = roll->max_rss = INT_UNKNOWN;
    roll->is_touched = false;
}

/* Whether the row differs from the last one that was written; marks it as written. */
static bool roll_update_written(struct roll *roll, const struct columns *columns)
{
    bool is_changed = !roll->has_written || roll->max_cpu != roll->written_max_cpu ||
                      roll->max_rss != roll->written_max_rss;

    for (size_t i = 0; i < columns->count; i++) {
        int64_t value = roll_value(roll, columns, i);
        is_changed |= value != roll->cells[i].written;
        roll->cells[i].written = value;
    }
    roll->written_max_cpu = roll->max_cpu;
    roll->written_max_rss = roll->max_rss;
    roll->has_written = true;
    return is_changed;
}

/* ---- groups ---- */

int minute_roller_init(struct minute_roller *roller, struct database *database,
                       const struct schema *schema, int64_t session)
{
    *roller = (struct minute_roller){
        .database = database,
        .schema = schema,
        .session = session,
        .minute = INT_UNKNOWN,
        .processes = {.columns = &schema->sample,
                      .cpu_at = columns_index(&schema->sample, "cpu_percent"),
                      .rss_at = columns_index(&schema->sample, "rss_mb"),
                      .age_at = columns_index(&schema->sample, "age_seconds")},
        .gpus = {.columns = &schema->gpu, .cpu_at = -1, .rss_at = -1, .age_at = -1},
        .usages = {.columns = &schema->usage, .cpu_at = -1, .rss_at = -1, .age_at = -1},
    };
    roller->machine = roll_new(0, &schema->snapshot);
    if (!roller->machine)
        return database_fail_errno(database, -ENOMEM);
    int r = schema_prepare_insert(database, "INSERT OR IGNORE", "snap",
                                  "id, session, is_minute, tick, to_tick, child_count, age_clock",
                                  7, &schema->snapshot, &roller->insert_snap);
    if (r == 0)
        r = database_prepare(database, "UPDATE sessions SET rolled_tick = ?1 WHERE id = ?2",
                             &roller->set_rolled);
    return r;
}

static void group_clear(struct roll_group *group)
{
    size_t position = 0;
    struct roll *roll;

    while ((roll = map_next(&group->by_key, &position)))
        free(roll);
    map_clear(&group->by_key);
}

void minute_roller_done(struct minute_roller *roller)
{
    struct roll_group *groups[] = {&roller->processes, &roller->gpus, &roller->usages};

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        group_clear(groups[i]);
        map_done(&groups[i]->by_key);
        sqlite3_finalize(groups[i]->insert);
    }
    sqlite3_finalize(roller->insert_snap);
    sqlite3_finalize(roller->set_rolled);
    free(roller->machine);
    *roller = (struct minute_roller){0};
}

void minute_roller_reset(struct minute_roller *roller)
{
    group_clear(&roller->processes);
    group_clear(&roller->gpus);
    group_clear(&roller->usages);
    roll_restart(roller->machine, &roller->schema->snapshot);
    roller->minute = INT_UNKNOWN;
}

int minute_roller_add(struct roll_group *group, uint64_t key, const int64_t *codes, int64_t ticks)
{
    struct roll *roll = map_get(&group->by_key, key);

    if (!roll) {
        roll = roll_new(key, group->columns);
        if (!roll)
            return -ENOMEM;
        if (map_put(&group->by_key, key, roll) < 0) {
            free(roll);
            return -ENOMEM;
        }
    }
    roll->is_over = false;
    roll_add(roll, group->columns, codes, ticks);
    /* INT_UNKNOWN is the smallest value. */
    if (group->cpu_at >= 0)
        roll->max_cpu = MAX(roll->max_cpu, codes[group->cpu_at]);
    if (group->rss_at >= 0)
        roll->max_rss = MAX(roll->max_rss, codes[group->rss_at]);
    return 0;
}

void minute_roller_end(struct roll_group *group, uint64_t key, int64_t age)
{
    struct roll *roll = map_get(&group->by_key, key);

    if (!roll)
        return;
    roll->is_over = true;
    if (roll->is_touched && !int_is_known(roll->cells[group->age_at].last))
        roll->cells[group->age_at].last = age;
}

/* ---- writing a minute ---- */

static int write_roll(struct minute_roller *roller, const struct roll_group *group,
                      const struct roll *roll)
{
    sqlite3_stmt *insert = group->insert;
    int at = 1;

    if (group == &roller->processes) {
        sqlite3_bind_int64(insert, at++, (int64_t)roll->key);
        sqlite3_bind_int64(insert, at++, roller->from_tick);
        column_bind_code(insert, at++, roll->max_cpu);
        column_bind_code(insert, at++, roll->max_rss);
    } else {
        sqlite3_bind_int(insert, at++, 1);
        sqlite3_bind_int64(insert, at++, roller->session);
        sqlite3_bind_int64(insert, at++, roller->from_tick);
        if (group == &roller->usages)
            sqlite3_bind_int64(insert, at++, (int64_t)roll->key);
    }
    for (size_t i = 0; i < group->columns->count; i++) {
        bool is_kept = group->columns->items[i].form != COLUMN_PLAIN;
        column_bind_code(insert, at++, is_kept ? roll->cells[i].written : INT_UNKNOWN);
    }
    return database_run(roller->database, insert);
}

/* Prepared only when needed: most machines have no GPU. */
static int prepare_group(struct minute_roller *roller, struct roll_group *group)
{
    struct database *database = roller->database;

    if (group->insert || !group->by_key.count)
        return 0;
    if (group == &roller->processes)
        return schema_prepare_insert(database, "INSERT OR REPLACE", "minute",
                                     "proc, tick, max_cpu_percent, max_rss_mb", 4, group->columns,
                                     &group->insert);
    if (group == &roller->gpus)
        return schema_prepare_insert(database, "INSERT OR REPLACE", "gpu",
                                     "is_minute, session, tick", 3, group->columns, &group->insert);
    return schema_prepare_insert(database, "INSERT OR REPLACE", "usage",
                                 "is_minute, session, tick, run", 4, group->columns,
                                 &group->insert);
}

static int write_group(struct minute_roller *roller, struct roll_group *group)
{
    size_t position = 0;
    struct roll *roll;
    int r = prepare_group(roller, group);

    while (r == 0 && (roll = map_next(&group->by_key, &position))) {
        if (!roll->is_touched)
            continue;
        bool is_changed = roll_update_written(roll, group->columns);
        /* Only a row of a process is valid until its next one; the others are always written. */
        if (is_changed || group != &roller->processes)
            r = write_roll(roller, group, roll);
        roll_restart(roll, group->columns);
    }
    return r;
}

static void drop_ended(struct roll_group *group)
{
    size_t position = 0;
    struct roll *roll;

    while ((roll = map_next(&group->by_key, &position)))
        if (roll->is_over) {
            map_remove(&group->by_key, roll->key);
            free(roll);
            position--; /* map_remove() may have moved another entry here */
        }
}

/* The id of a minute is the first free one after that of its last snapshot. */
#define SAME_ID_MAX 1000

static int insert_machine(struct minute_roller *roller)
{
    for (int64_t id = roller->last.id + 1; id <= roller->last.id + SAME_ID_MAX; id++) {
        sqlite3_bind_int64(roller->insert_snap, 1, id);
        int r = database_run(roller->database, roller->insert_snap);
        if (r < 0 || sqlite3_changes(roller->database->handle))
            return r;
    }
    return database_fail_with(roller->database, -EEXIST, "no free id for a minute");
}

static int write_machine(struct minute_roller *roller)
{
    const struct columns *columns = &roller->schema->snapshot;
    const int64_t own[] = {roller->session,          1,
                           roller->from_tick,        roller->last.tick,
                           roller->last.child_count, roller->last.age_clock};
    int first = ARRAY_SIZE(own) + 2, r = 0;

    for (size_t i = 0; i < columns->count; i++)
        if (columns->items[i].field->rollup == ROLLUP_MEAN)
            column_set_code(&columns->items[i], roll_value(roller->machine, columns, i),
                            &roller->last_machine);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        column_bind_code(roller->insert_snap, (int)i + 2, own[i]);
    for (size_t i = 0; i < columns->count && r == 0; i++)
        r = column_bind(&columns->items[i], &roller->last_machine, NULL, roller->insert_snap,
                        first + (int)i);
    if (r == 0)
        r = insert_machine(roller);
    roll_restart(roller->machine, columns);
    return r;
}

int minute_roller_flush(struct minute_roller *roller)
{
    if (!int_is_known(roller->minute))
        return 0;
    int r = write_machine(roller);
    if (r == 0)
        r = write_group(roller, &roller->processes);
    if (r == 0)
        r = write_group(roller, &roller->gpus);
    if (r == 0)
        r = write_group(roller, &roller->usages);
    if (r < 0)
        return r;
    drop_ended(&roller->processes);
    /* Dropped, so that ended ones do not accumulate. */
    group_clear(&roller->gpus);
    group_clear(&roller->usages);
    roller->minute = INT_UNKNOWN;
    sqlite3_bind_int64(roller->set_rolled, 1, roller->last.tick);
    sqlite3_bind_int64(roller->set_rolled, 2, roller->session);
    return database_run(roller->database, roller->set_rolled);
}

static int64_t minute_of(const struct snapshot *machine)
{
    return (int64_t)floor(machine->timestamp / 60);
}

/* Copies the numbers of a snapshot, without the pointers. */
static void copy_numbers(struct minute_roller *roller, const struct snapshot *machine)
{
    roller->last_machine = *machine;
    roller->last_machine.zombie_pids = (struct int_list){0};
    roller->last_machine.job_progress = (struct job_progress_list){0};
    roller->last_machine.host = NULL;
    roller->last_machine.arena = (struct arena){0};
}

void minute_roller_continue(struct minute_roller *roller, const struct snapshot *machine,
                            const struct snap_key *key)
{
    const struct columns *columns = &roller->schema->snapshot;
    int64_t codes[COLUMNS_MAX];

    if (!int_is_known(roller->minute)) {
        roller->minute = minute_of(machine);
        roller->from_tick = key->tick;
    }
    for (size_t i = 0; i < columns->count; i++)
        codes[i] = column_is_number(&columns->items[i]) ? column_code(&columns->items[i], machine)
                                                        : INT_UNKNOWN;
    roll_add(roller->machine, columns, codes, 1);
    copy_numbers(roller, machine);
    roller->last = *key;
}

int minute_roller_begin(struct minute_roller *roller, const struct snapshot *machine,
                        const struct snap_key *key)
{
    int r = 0;

    if (int_is_known(roller->minute) && minute_of(machine) != roller->minute)
        r = minute_roller_flush(roller);
    if (r == 0)
        minute_roller_continue(roller, machine, key);
    return r;
}
