#include "store/folds.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/text-pool.h"

/* Budgets that are looked through for those that are full again, and need not be kept. */
#define BUDGETS_KEPT 64
#define MINUTE_MAX   1e12

/* Of ordinary events, and of notable ones. */
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
    double left[KINDS]; /* events that may still come */
    bool is_storm[KINDS];
    double at; /* as of this event's time */
};

struct fold_budget {
    int64_t run;
    struct budget now;
    struct budget stored; /* as of the last transaction that is in the database */
};

/* One row, as far as this tick adds to it. */
struct fold {
    int64_t run;
    int64_t minute;
    int event_type;
    int64_t code; /* the exit status or the signal; -1: none */
    const char *program;
    int64_t count;
    double first;
    double last;
    double cpu_seconds; /* of those that tell; unknown: none does */
    int64_t cpu_count;
    double peak_rss_mb;
};

static int no_memory(struct folds *folds)
{
    return database_fail_with(folds->database, -ENOMEM, "no memory left");
}

void folds_init(struct folds *folds, struct database *database, int64_t session,
                const struct text_list *redact)
{
    *folds = (struct folds){.database = database, .session = session, .redact = redact};
}

static void drop_budgets(struct folds *folds)
{
    size_t position = 0;

    for (struct fold_budget *budget; (budget = map_next(&folds->budgets, &position));)
        free(budget);
    map_clear(&folds->budgets);
}

void folds_done(struct folds *folds)
{
    drop_budgets(folds);
    map_done(&folds->budgets);
    map_done(&folds->by_hash);
    VEC_DONE(&folds->commands);
    VEC_DONE(&folds->rows);
    arena_done(&folds->arena);
    sqlite3_finalize(folds->put);
    sqlite3_finalize(folds->count);
    *folds = (struct folds){0};
}

/* ---- budgets ---- */

static bool is_notable(const struct process_event *event)
{
    return event->event_type == EVENT_SIGNAL || event->event_type == EVENT_OOM ||
           event_is_failure(event);
}

/* A clock that was set back gives nothing. */
static void refill(struct budget *budget, double now)
{
    double passed = fmax(now - budget->at, 0);

    for (size_t i = 0; i < KINDS; i++)
        budget->left[i] =
            fmin(budget->left[i] + passed * allowances[i].per_second, allowances[i].burst);
    budget->at = now;
}

/* Whether the event is one of a storm, which begins when nothing is left, and ends when half of it
 * is there again: not a moment earlier, or single events would be picked out of it at random. */
static bool spend(struct budget *budget, int kind)
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

static struct fold_budget *get_budget(struct folds *folds, int64_t run, double now)
{
    struct fold_budget *budget = map_get(&folds->budgets, (uint64_t)run);

    if (budget)
        return budget;
    budget = malloc(sizeof(*budget));
    if (!budget || map_put(&folds->budgets, (uint64_t)run, budget) < 0) {
        free(budget);
        return NULL;
    }
    const struct budget full = {.left = {FOLD_BURST, FOLD_NOTABLE_BURST}, .at = now};
    *budget = (struct fold_budget){.run = run, .now = full, .stored = full};
    return budget;
}

int folds_wants(struct folds *folds, int64_t run, const struct process_event *event)
{
    struct fold_budget *budget = get_budget(folds, run, event->timestamp);

    if (!budget)
        return no_memory(folds);
    refill(&budget->now, event->timestamp);
    return spend(&budget->now, is_notable(event) ? NOTABLE : ORDINARY);
}

/* Runs end without a word to us: what is full again is as good as new. */
static void drop_full(struct folds *folds)
{
    size_t position = 0;
    double latest = 0;

    for (struct fold_budget *budget; (budget = map_next(&folds->budgets, &position));)
        latest = fmax(latest, budget->now.at);
    position = 0;
    for (struct fold_budget *budget; (budget = map_next(&folds->budgets, &position));) {
        struct budget then = budget->now;
        refill(&then, latest);
        if (!is_full(&then))
            continue;
        map_remove(&folds->budgets, (uint64_t)budget->run);
        free(budget);
        position--; /* another may have moved into its place */
    }
}

void folds_commit(struct folds *folds)
{
    size_t position = 0;

    if (folds->budgets.count > BUDGETS_KEPT)
        drop_full(folds);
    for (struct fold_budget *budget; (budget = map_next(&folds->budgets, &position));)
        budget->stored = budget->now;
}

void folds_reset(struct folds *folds)
{
    size_t position = 0;

    for (struct fold_budget *budget; (budget = map_next(&folds->budgets, &position));)
        budget->now = budget->stored;
}

/* ---- what a process ended as ---- */

static bool is_end(const struct process_event *event)
{
    return event->event_type == EVENT_EXIT || event->event_type == EVENT_KILL;
}

/* Backwards, because what a process is called at its end is what it was all along, as far as anyone
 * wants to know. */
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

static int name_events(struct folds *folds)
{
    const struct process_event_list *events = folds->events;
    struct map ended_as = {0};

    int r = VEC_RESERVE(&folds->commands, events->count);
    for (size_t i = events->count; i > 0 && r == 0; i--)
        r = name_event(&ended_as, &events->items[i - 1], &folds->commands.items[i - 1]);
    map_done(&ended_as);
    if (r == 0)
        folds->commands.count = events->count;
    return r;
}

void folds_begin(struct folds *folds, const struct process_event_list *events)
{
    folds->events = events;
    folds->commands.count = folds->rows.count = 0;
    folds->last_command = NULL;
    map_clear(&folds->by_hash);
    arena_reset(&folds->arena);
}

/* ---- rows ---- */

static int64_t code_of(const struct process_event *event)
{
    int64_t code = event->event_type == EVENT_EXIT ? event->exit_code : event->signal_num;

    return int_is_known(code) ? code : -1;
}

/* Whatever the clock says, it is a number. */
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
    uint64_t hash = text_hash(fold->program, strlen(fold->program));

    hash = (hash ^ (uint64_t)fold->run) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (uint64_t)fold->minute) * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ (uint64_t)(fold->event_type << 16) ^ (uint64_t)fold->code) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static int make_row(struct folds *folds, const struct fold *wanted, uint64_t hash,
                    struct fold **ret)
{
    struct fold *fold = arena_alloc(&folds->arena, sizeof(*fold));
    const char *program = arena_strdup(&folds->arena, wanted->program);

    if (!fold || !program)
        return -ENOMEM;
    *fold = *wanted;
    fold->program = program;
    fold->first = HUGE_VAL;
    fold->last = -HUGE_VAL;
    fold->cpu_seconds = fold->peak_rss_mb = REAL_UNKNOWN;
    int r = VEC_PUSH(&folds->rows, fold);
    if (r == 0)
        r = map_put(&folds->by_hash, hash, fold);
    *ret = fold;
    return r;
}

/* The row of the tick; that of the others, if there are too many. */
static int find_row(struct folds *folds, struct fold *wanted, struct fold **ret)
{
    uint64_t hash = hash_of(wanted);
    struct fold *fold = map_get(&folds->by_hash, hash);

    if (fold && is_same(fold, wanted)) {
        *ret = fold;
        return 0;
    }
    if (folds->rows.count >= FOLD_ROWS_MAX && strcmp(wanted->program, FOLD_OTHERS) != 0) {
        wanted->program = FOLD_OTHERS;
        return find_row(folds, wanted, ret);
    }
    return make_row(folds, wanted, hash, ret);
}

/* Secrets are hidden in the whole command line, where they can be told from other words. Mostly it
 * is the same one again. */
static int find_program(struct folds *folds, const char *command, const char **ret)
{
    const char *last = folds->last_command, *shown = command ? command : "";

    *ret = folds->last_program;
    if (last && command && strcmp(last, command) == 0)
        return 0;
    int r = redact_replace(folds->redact, &folds->arena, &shown);
    if (r < 0)
        return r;
    if (!command_program(shown, folds->last_program))
        folds->last_program[0] = '\0';
    folds->last_command = command;
    return 0;
}

static void add(struct fold *fold, const struct process_event *event)
{
    fold->count++;
    fold->first = fmin(fold->first, event->timestamp);
    fold->last = fmax(fold->last, event->timestamp);
    fold->peak_rss_mb = fmax(fold->peak_rss_mb, event->peak_rss_mb); /* of one that is known */
    if (!real_is_known(event->cpu_seconds))
        return;
    fold->cpu_seconds =
        (real_is_known(fold->cpu_seconds) ? fold->cpu_seconds : 0) + event->cpu_seconds;
    fold->cpu_count++;
}

int folds_add(struct folds *folds, int64_t run, const struct process_event *event)
{
    struct fold wanted = {.run = run,
                          .minute = minute_of(event->timestamp),
                          .event_type = event->event_type,
                          .code = code_of(event)};
    struct fold *fold = NULL;

    int r = folds->commands.count ? 0 : name_events(folds);
    if (r == 0)
        r = find_program(folds, folds->commands.items[event - folds->events->items],
                         &wanted.program);
    if (r == 0)
        r = find_row(folds, &wanted, &fold);
    if (r < 0)
        return no_memory(folds);
    add(fold, event);
    return 0;
}

/* ---- the table ---- */

static int prepare(struct folds *folds)
{
    if (folds->count)
        return 0;
    int r = folds->put ? 0
                       : database_prepare(
                             folds->database,
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
                             &folds->put);
    if (r < 0)
        return r;
    return database_prepare(folds->database,
                            "SELECT count(*) FROM folded_events WHERE run = ?1 AND minute = ?2",
                            &folds->count);
}

/* Whether there is no room for more programs in that minute: those that are there are few then. */
static int is_crowded(struct folds *folds, const struct fold *fold)
{
    int64_t rows = 0;

    sqlite3_bind_int64(folds->count, 1, fold->run);
    sqlite3_bind_int64(folds->count, 2, fold->minute);
    int r = database_step_int(folds->database, folds->count, &rows);
    return r < 0 ? r : rows >= FOLD_MINUTE_MAX;
}

static void bind_real(sqlite3_stmt *statement, int at, double value)
{
    if (real_is_known(value))
        sqlite3_bind_double(statement, at, value);
    else
        sqlite3_bind_null(statement, at);
}

static int write_row(struct folds *folds, const struct fold *fold)
{
    const struct field *type = record_find(&process_event_record, "event_type");
    int r = is_crowded(folds, fold);

    if (r < 0)
        return r;
    sqlite3_bind_int64(folds->put, 1, fold->run);
    sqlite3_bind_int64(folds->put, 2, fold->minute);
    sqlite3_bind_int64(folds->put, 3, folds->session);
    sqlite3_bind_text(folds->put, 4, r ? FOLD_OTHERS : fold->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(folds->put, 5, field_enum_name(type, fold->event_type), -1, SQLITE_STATIC);
    sqlite3_bind_int64(folds->put, 6, fold->code);
    sqlite3_bind_int64(folds->put, 7, fold->count);
    sqlite3_bind_double(folds->put, 8, fold->first);
    sqlite3_bind_double(folds->put, 9, fold->last);
    bind_real(folds->put, 10, fold->cpu_seconds);
    sqlite3_bind_int64(folds->put, 11, fold->cpu_count);
    bind_real(folds->put, 12, fold->peak_rss_mb);
    return database_run(folds->database, folds->put);
}

int folds_write(struct folds *folds)
{
    int r = folds->rows.count ? prepare(folds) : 0;

    for (size_t i = 0; i < folds->rows.count && r == 0; i++)
        r = write_row(folds, folds->rows.items[i]);
    return r;
}
