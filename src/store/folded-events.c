#include "store/folded-events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "store/text-pool.h"

/* With more budgets than this, a commit drops those that are full again. */
#define BUDGETS_KEPT 64
#define MINUTE_MAX   1e12

enum {
    ORDINARY,
    NOTABLE,
    KINDS,
};

static const struct {
    double burst;
    double per_second;
} allowances[KINDS] = {
    [ORDINARY] = {FOLD_BURST, FOLD_PER_SECOND},
    [NOTABLE] = {FOLD_NOTABLE_BURST, FOLD_NOTABLE_PER_SECOND},
};

struct budget {
    double left[KINDS]; /* tokens */
    bool is_storm[KINDS];
    double at; /* time of the last refill */
};

struct fold_budget {
    int64_t run;
    struct budget now;
    struct budget stored; /* as of the last committed transaction */
};

/* What one tick adds to one row. */
struct fold {
    int64_t run;
    int64_t minute;
    int event_type;
    int64_t code; /* the exit status or the signal; -1: none */
    const char *program;
    int64_t count;
    double first;
    double last;
    double cpu_seconds; /* of the cpu_count events that have it */
    int64_t cpu_count;
    double peak_rss_mb;
};

void folded_events_init(struct folded_events *folded, struct database *database, int64_t session)
{
    *folded = (struct folded_events){.database = database, .session = session};
}

void folded_events_done(struct folded_events *folded)
{
    map_done_free(&folded->budgets);
    map_done(&folded->by_hash);
    VEC_DONE(&folded->commands);
    VEC_DONE(&folded->rows);
    arena_done(&folded->arena);
    sqlite3_finalize(folded->put);
    sqlite3_finalize(folded->count);
    *folded = (struct folded_events){0};
}

/* ---- budgets ---- */

static bool is_notable(const struct process_event *event)
{
    return event->event_type == EVENT_SIGNAL || event->event_type == EVENT_OOM ||
           event_is_failure(event);
}

/* A clock that was set back adds nothing. */
static void refill_budget(struct budget *budget, double now)
{
    double passed = fmax(now - budget->at, 0);

    for (size_t i = 0; i < KINDS; i++)
        budget->left[i] =
            fmin(budget->left[i] + passed * allowances[i].per_second, allowances[i].burst);
    budget->at = now;
}

/* Takes a token; returns whether there is a storm. A storm ends only when the budget is half full
 * again; otherwise random single events of the storm would be stored. */
static bool spend_token(struct budget *budget, int kind)
{
    double *left = &budget->left[kind];
    bool *is_storm = &budget->is_storm[kind];

    *is_storm = *is_storm ? *left < allowances[kind].burst / 2 : *left < 1;
    *left = fmax(*left - 1, 0);
    return *is_storm;
}

static bool is_full(const struct budget *budget)
{
    return budget->left[ORDINARY] >= FOLD_BURST && budget->left[NOTABLE] >= FOLD_NOTABLE_BURST;
}

static struct fold_budget *get_budget(struct folded_events *folded, int64_t run, double now)
{
    struct fold_budget *budget = map_get(&folded->budgets, (uint64_t)run);

    if (budget)
        return budget;
    budget = malloc(sizeof(*budget));
    if (!budget || map_put(&folded->budgets, (uint64_t)run, budget) < 0) {
        free(budget);
        return NULL;
    }
    const struct budget full = {.left = {FOLD_BURST, FOLD_NOTABLE_BURST}, .at = now};
    *budget = (struct fold_budget){.run = run, .now = full, .stored = full};
    return budget;
}

int folded_events_must_fold(struct folded_events *folded, int64_t run,
                            const struct process_event *event)
{
    struct fold_budget *budget = get_budget(folded, run, event->timestamp);

    if (!budget)
        return database_fail_errno(folded->database, -ENOMEM);
    refill_budget(&budget->now, event->timestamp);
    return spend_token(&budget->now, is_notable(event) ? NOTABLE : ORDINARY);
}

/* The end of a run is not reported here. A budget that is full again equals a new one. */
static void drop_full(struct folded_events *folded)
{
    size_t position = 0;
    double latest = 0;

    for (struct fold_budget *budget; (budget = map_next(&folded->budgets, &position));)
        latest = fmax(latest, budget->now.at);
    position = 0;
    for (struct fold_budget *budget; (budget = map_next(&folded->budgets, &position));) {
        struct budget then = budget->now;
        refill_budget(&then, latest);
        if (!is_full(&then))
            continue;
        map_remove(&folded->budgets, (uint64_t)budget->run);
        free(budget);
        position--; /* map_remove() may have moved another entry here */
    }
}

void folded_events_commit(struct folded_events *folded)
{
    size_t position = 0;

    if (folded->budgets.count > BUDGETS_KEPT)
        drop_full(folded);
    for (struct fold_budget *budget; (budget = map_next(&folded->budgets, &position));)
        budget->stored = budget->now;
}

void folded_events_reset(struct folded_events *folded)
{
    size_t position = 0;

    for (struct fold_budget *budget; (budget = map_next(&folded->budgets, &position));)
        budget->now = budget->stored;
}

/* ---- the last command of each process ---- */

static bool is_end(const struct process_event *event)
{
    return event->event_type == EVENT_EXIT || event->event_type == EVENT_KILL;
}

/* Called from the last event to the first: the command at the end of a process replaces those of
 * its earlier events. */
static int name_event(struct map *ended_as, const struct process_event *event, const char **ret)
{
    const char *later = is_end(event) ? NULL : map_get(ended_as, (uint64_t)event->pid);

    *ret = later ? later : event->command;
    if (event->event_type == EVENT_SPAWN || !*ret) {
        map_remove(ended_as, (uint64_t)event->pid);
        return 0;
    }
    return later ? 0 : map_put(ended_as, (uint64_t)event->pid, (void *)(uintptr_t)*ret);
}

static int name_events(struct folded_events *folded)
{
    const struct process_event_list *events = folded->events;
    struct map ended_as = {0};

    int r = VEC_RESERVE(&folded->commands, events->count);
    for (size_t i = events->count; i > 0 && r == 0; i--)
        r = name_event(&ended_as, &events->items[i - 1], &folded->commands.items[i - 1]);
    map_done(&ended_as);
    if (r == 0)
        folded->commands.count = events->count;
    return r;
}

void folded_events_begin(struct folded_events *folded, const struct process_event_list *events)
{
    folded->events = events;
    folded->commands.count = folded->rows.count = 0;
    folded->last_command = NULL;
    map_clear(&folded->by_hash);
    arena_reset(&folded->arena);
}

/* ---- rows ---- */

static int64_t code_of(const struct process_event *event)
{
    int64_t code = event->event_type == EVENT_EXIT ? event->exit_code : event->signal_num;

    return int_is_known(code) ? code : -1;
}

/* Limited, so that the number fits even if the clock is wrong. */
static int64_t minute_of(double timestamp)
{
    return (int64_t)fmin(fmax(floor(timestamp / FOLD_SECONDS), 0), MINUTE_MAX);
}

static bool is_same(const struct fold *fold, const struct fold *wanted)
{
    return fold->run == wanted->run && fold->minute == wanted->minute &&
           fold->event_type == wanted->event_type && fold->code == wanted->code &&
           strcmp(fold->program, wanted->program) == 0;
}

static uint64_t hash_of(const struct fold *fold)
{
    uint64_t hash = hash_text(fold->program);

    hash = (hash ^ (uint64_t)fold->run) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (uint64_t)fold->minute) * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ (uint64_t)(fold->event_type << 16) ^ (uint64_t)fold->code) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static int make_row(struct folded_events *folded, const struct fold *wanted, uint64_t hash,
                    struct fold **ret)
{
    struct fold *fold = arena_alloc(&folded->arena, sizeof(*fold));
    const char *program = arena_strdup(&folded->arena, wanted->program);

    if (!fold || !program)
        return -ENOMEM;
    *fold = *wanted;
    fold->program = program;
    fold->first = HUGE_VAL;
    fold->last = -HUGE_VAL;
    fold->cpu_seconds = fold->peak_rss_mb = REAL_UNKNOWN;
    int r = VEC_PUSH(&folded->rows, fold);
    if (r == 0)
        r = map_put(&folded->by_hash, hash, fold);
    *ret = fold;
    return r;
}

/* The row of this tick for the event, or the row of FOLD_OTHERS if there are too many. */
static int find_row(struct folded_events *folded, struct fold *wanted, struct fold **ret)
{
    uint64_t hash = hash_of(wanted);
    struct fold *fold = map_get(&folded->by_hash, hash);

    if (fold && is_same(fold, wanted)) {
        *ret = fold;
        return 0;
    }
    if (folded->rows.count >= FOLD_ROWS_MAX && strcmp(wanted->program, FOLD_OTHERS) != 0) {
        wanted->program = FOLD_OTHERS;
        return find_row(folded, wanted, ret);
    }
    return make_row(folded, wanted, hash, ret);
}

/* Finds the program of a command line (NULL: unknown). Consecutive events often have the same. */
static const char *find_program(struct folded_events *folded, const char *command)
{
    const char *last = folded->last_command;

    if (last && command && strcmp(last, command) == 0)
        return folded->last_program;
    if (!command_program(command ? command : "", folded->last_program))
        folded->last_program[0] = '\0';
    folded->last_command = command;
    return folded->last_program;
}

static void add_event(struct fold *fold, const struct process_event *event)
{
    fold->count++;
    fold->first = fmin(fold->first, event->timestamp);
    fold->last = fmax(fold->last, event->timestamp);
    fold->peak_rss_mb = fmax(fold->peak_rss_mb, event->peak_rss_mb); /* ignores NaN */
    if (!real_is_known(event->cpu_seconds))
        return;
    fold->cpu_seconds =
        (real_is_known(fold->cpu_seconds) ? fold->cpu_seconds : 0) + event->cpu_seconds;
    fold->cpu_count++;
}

int folded_events_add(struct folded_events *folded, int64_t run, const struct process_event *event)
{
    struct fold wanted = {.run = run,
                          .minute = minute_of(event->timestamp),
                          .event_type = event->event_type,
                          .code = code_of(event)};
    struct fold *fold = NULL;

    int r = folded->commands.count ? 0 : name_events(folded);
    if (r == 0) {
        wanted.program =
            find_program(folded, folded->commands.items[event - folded->events->items]);
        r = find_row(folded, &wanted, &fold);
    }
    if (r < 0)
        return database_fail_errno(folded->database, -ENOMEM);
    add_event(fold, event);
    return 0;
}

/* ---- the table ---- */

static int prepare(struct folded_events *folded)
{
    if (folded->count)
        return 0;
    int r = folded->put
                ? 0
                : database_prepare(
                      folded->database,
                      "INSERT INTO folded_events (run, minute, session, program, event_type,"
                      " code, count, first, last, cpu_seconds, cpu_count, peak_rss_mb)"
                      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, round(?8, 6), round(?9, 6),"
                      " round(?10, 6), ?11, round(?12, 3)) ON CONFLICT DO UPDATE SET"
                      " count = count + excluded.count, first = min(first, excluded.first),"
                      " last = max(last, excluded.last), cpu_seconds ="
                      " COALESCE(cpu_seconds + excluded.cpu_seconds, cpu_seconds,"
                      " excluded.cpu_seconds), cpu_count = cpu_count + excluded.cpu_count,"
                      " peak_rss_mb = COALESCE(max(peak_rss_mb, excluded.peak_rss_mb),"
                      " peak_rss_mb, excluded.peak_rss_mb)",
                      &folded->put);
    if (r < 0)
        return r;
    return database_prepare(folded->database,
                            "SELECT count(*) FROM folded_events WHERE run = ?1 AND minute = ?2",
                            &folded->count);
}

/* Whether the run has the maximum number of rows in this minute. */
static int is_crowded(struct folded_events *folded, const struct fold *fold)
{
    int64_t rows = 0;

    sqlite3_bind_int64(folded->count, 1, fold->run);
    sqlite3_bind_int64(folded->count, 2, fold->minute);
    int r = database_step_int(folded->database, folded->count, &rows);
    return r < 0 ? r : rows >= FOLD_MINUTE_MAX;
}

static void bind_real(sqlite3_stmt *statement, int at, double value)
{
    if (real_is_known(value))
        sqlite3_bind_double(statement, at, value);
    else
        sqlite3_bind_null(statement, at);
}

static int write_row(struct folded_events *folded, const struct fold *fold)
{
    const struct field *type = record_find(&process_event_record, "event_type");
    int r = is_crowded(folded, fold);

    if (r < 0)
        return r;
    sqlite3_bind_int64(folded->put, 1, fold->run);
    sqlite3_bind_int64(folded->put, 2, fold->minute);
    sqlite3_bind_int64(folded->put, 3, folded->session);
    sqlite3_bind_text(folded->put, 4, r ? FOLD_OTHERS : fold->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(folded->put, 5, field_enum_name(type, fold->event_type), -1, SQLITE_STATIC);
    sqlite3_bind_int64(folded->put, 6, fold->code);
    sqlite3_bind_int64(folded->put, 7, fold->count);
    sqlite3_bind_double(folded->put, 8, fold->first);
    sqlite3_bind_double(folded->put, 9, fold->last);
    bind_real(folded->put, 10, fold->cpu_seconds);
    sqlite3_bind_int64(folded->put, 11, fold->cpu_count);
    bind_real(folded->put, 12, fold->peak_rss_mb);
    return database_run(folded->database, folded->put);
}

int folded_events_write(struct folded_events *folded)
{
    int r = folded->rows.count ? prepare(folded) : 0;

    for (size_t i = 0; i < folded->rows.count && r == 0; i++)
        r = write_row(folded, folded->rows.items[i]);
    return r;
}
