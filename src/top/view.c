#include "top/view.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/time-spec.h"
#include "base/utf8.h"
#include "model/process.h"
#include "top/columns.h"

#define SHIFT_STEP   8
#define SPEED_FACTOR 2.0

const struct signal_entry signal_table[] = {
    {SIGTERM, "SIGTERM"},   {SIGKILL, "SIGKILL"}, {SIGINT, "SIGINT"},   {SIGHUP, "SIGHUP"},
    {SIGQUIT, "SIGQUIT"},   {SIGSTOP, "SIGSTOP"}, {SIGCONT, "SIGCONT"}, {SIGTSTP, "SIGTSTP"},
    {SIGUSR1, "SIGUSR1"},   {SIGUSR2, "SIGUSR2"}, {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"},
    {SIGPIPE, "SIGPIPE"},   {SIGCHLD, "SIGCHLD"}, {SIGTTIN, "SIGTTIN"}, {SIGTTOU, "SIGTTOU"},
    {SIGWINCH, "SIGWINCH"},
};
const size_t signal_count = ARRAY_SIZE(signal_table);

void view_init(struct view *view, const struct view_options *options)
{
    *view = (struct view){
        .mode = {.is_history = options->is_history, .is_readonly = options->is_readonly},
        .sort = record_find(&process_metric_record, "cpu_percent"),
        .has_timeline = true,
    };
}

void view_done(struct view *view)
{
    key_set_done(&view->folded);
    key_set_done(&view->tagged);
    VEC_DONE(&view->targets);
}

struct listing_request view_listing_request(const struct view *view)
{
    return (struct listing_request){
        .arrangement = view->arrangement,
        .sort = view->sort,
        .is_ascending = view->is_ascending,
        .filter = view->filter,
        .folded = &view->folded,
    };
}

void view_message(struct view *view, enum look look, double now, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(view->message, sizeof(view->message), format, arguments);
    va_end(arguments);
    view->message_look = look;
    view->message_until = now + VIEW_MESSAGE_SECONDS;
}

/* ---- the selection ---- */

const struct row *view_selected(const struct view *view, const struct listing *listing)
{
    return view->selected < listing->rows.count ? &listing->rows.items[view->selected] : NULL;
}

static void scroll_to_selection(struct view *view, const struct listing *listing)
{
    size_t count = listing->rows.count, page = MAX(view->page, (size_t)1);

    if (view->selected >= count)
        view->selected = count ? count - 1 : 0;
    if (view->first > view->selected)
        view->first = view->selected;
    if (view->selected - view->first >= page)
        view->first = view->selected - page + 1;
    if (view->first + page > count) /* no blank rows at the end while there are rows above */
        view->first = count > page ? count - page : 0;
}

static void select_row(struct view *view, const struct listing *listing, size_t row)
{
    view->selected = row;
    scroll_to_selection(view, listing);
    const struct row *selected = view_selected(view, listing);
    view->selected_key = selected ? selected->key : 0;
}

static size_t find_key(const struct listing *listing, uint64_t key)
{
    for (size_t i = 0; i < listing->rows.count; i++)
        if (listing->rows.items[i].key == key)
            return i;
    return SIZE_MAX;
}

/* While details, a match or a followed row are shown, the selection stays on that row. */
static bool is_bound(const struct view *view)
{
    return view->follows || view->has_detail || view->has_found;
}

/* Prefers a process to the job that it belongs to. */
static size_t find_first_alarm(const struct listing *listing)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < listing->rows.count; i++) {
        const struct row *row = &listing->rows.items[i];
        if (row->alarm && row->kind == ROW_PROCESS)
            return i;
        if (row->alarm && found == SIZE_MAX)
            found = i;
    }
    return found;
}

void view_settle(struct view *view, const struct listing *listing, double now)
{
    size_t alarm = view->wants_alarm ? find_first_alarm(listing) : SIZE_MAX;

    if (alarm != SIZE_MAX) {
        view->wants_alarm = false;
        select_row(view, listing, alarm);
        return;
    }
    size_t place = is_bound(view) ? find_key(listing, view->selected_key) : SIZE_MAX;

    if (place != SIZE_MAX) {
        select_row(view, listing, place);
        return;
    }
    if (view->follows && view->selected_key) {
        view->follows = false;
        view_message(view, LOOK_DOUBTFUL, now, "the followed row is gone");
    }
    view->has_found = false;
    select_row(view, listing, view->selected);
}

void view_set_page(struct view *view, const struct listing *listing, size_t page)
{
    view->page = page;
    scroll_to_selection(view, listing);
}

static void move_by(struct view *view, const struct listing *listing, ptrdiff_t rows)
{
    size_t last = listing->rows.count ? listing->rows.count - 1 : 0, row = view->selected;

    if (rows < 0)
        row -= MIN(row, (size_t)-rows);
    else
        row = MIN(row + (size_t)rows, last);
    view->has_found = false;
    select_row(view, listing, row);
}

/* ---- searching ---- */

static bool search_from(struct view *view, const struct listing *listing, size_t start)
{
    for (size_t i = 0; i < listing->rows.count; i++) {
        size_t row = (start + i) % listing->rows.count;
        if (row_matches(&listing->rows.items[row], view->search)) {
            select_row(view, listing, row);
            view->has_found = true;
            return true;
        }
    }
    return false;
}

static void search_next(struct view *view, const struct listing *listing, double now)
{
    if (!view->search[0])
        view_message(view, LOOK_DOUBTFUL, now, "nothing to search for; press / first");
    else if (!search_from(view, listing, view->selected + 1))
        view_message(view, LOOK_DOUBTFUL, now, "not found: %s", view->search);
}

static void find_alarm(struct view *view, const struct listing *listing, bool is_next, double now)
{
    size_t count = listing->rows.count;

    for (size_t i = 1; i <= count; i++) {
        size_t row = (view->selected + (is_next ? i : count - i)) % count;
        if (listing->rows.items[row].alarm) {
            select_row(view, listing, row);
            return;
        }
    }
    view_message(view, LOOK_GOOD, now, "no row has an open anomaly");
}

/* ---- sorting and folding ---- */

/* Choosing the same column again reverses the order. */
static void sort_by(struct view *view, const struct field *field)
{
    view->is_ascending = field == view->sort && !view->is_ascending;
    view->sort = field;
}

static void sort_by_name(struct view *view, const char *name)
{
    const struct field *field = record_find(&process_metric_record, name);

    if (field != view->sort)
        sort_by(view, field);
}

/* A row without children folds the row above it in the tree. */
static void fold_row(struct view *view, const struct listing *listing)
{
    size_t row = view->selected;

    if (row >= listing->rows.count)
        return;
    while (row > 0 && !listing->rows.items[row].has_children &&
           listing->rows.items[row].depth >= listing->rows.items[view->selected].depth)
        row--;
    if (!listing->rows.items[row].has_children)
        return;
    key_set_toggle(&view->folded, listing->rows.items[row].key);
    select_row(view, listing, row);
}

static void fold_all(struct view *view, const struct listing *listing)
{
    bool has_folded = false;

    for (size_t i = 0; i < listing->rows.count; i++)
        has_folded |= listing->rows.items[i].is_folded;
    key_set_clear(&view->folded);
    for (size_t i = 0; i < listing->rows.count && !has_folded; i++)
        if (listing->rows.items[i].kind != ROW_PROCESS && listing->rows.items[i].has_children)
            key_set_toggle(&view->folded, listing->rows.items[i].key);
}

/* ---- signals ---- */

static void add_target(struct view *view, const struct listing *listing,
                       const struct process_metric *process)
{
    const struct signal_target target = {
        .pid = (pid_t)process->pid,
        .born = ns_to_sec(listing->frame->boot_ns) - process->age_seconds,
    };
    int r = VEC_PUSH(&view->targets, target); /* without memory the process gets no signal */
    (void)r;
}

static void name_target(struct view *view, const struct row *row)
{
    const char *name = row->kind == ROW_PROCESS ? row->figures->command : row->figures->job_id;
    struct text visible = {0};

    text_append_visible(&visible, name ? name : "-", strlen(name ? name : "-"), 40);
    if (row->kind == ROW_PROCESS)
        snprintf(view->target_name, sizeof(view->target_name), "%lld (%s)",
                 (long long)row->figures->pid, text_string(&visible));
    else
        snprintf(view->target_name, sizeof(view->target_name), "the %zu processes of %s",
                 view->targets.count, text_string(&visible));
    text_done(&visible);
}

static bool is_of_row(const struct row *group, const struct process_metric *process)
{
    bool is_of_job = group->job && listing_job_key(process->run_id, process->job_id) ==
                                       listing_job_key(group->job->run_id, group->job->job_id);

    return is_of_job && (group->kind == ROW_JOB || process->sheet_num == group->sheet_num);
}

/* All processes of the job, including folded and filtered ones. */
static void add_targets_of(struct view *view, const struct listing *listing, const struct row *row)
{
    const struct snapshot *snapshot = listing->frame->snapshot;

    for (size_t i = 0; i < snapshot->processes.count; i++)
        if (is_of_row(row, &snapshot->processes.items[i]))
            add_target(view, listing, &snapshot->processes.items[i]);
}

static void gather_targets(struct view *view, const struct listing *listing)
{
    const struct row *selected = view_selected(view, listing);
    size_t tagged = 0;

    view->targets.count = 0;
    for (size_t i = 0; i < listing->rows.count; i++) {
        const struct row *row = &listing->rows.items[i];
        if (row->kind != ROW_PROCESS || !key_set_has(&view->tagged, row->key))
            continue;
        add_target(view, listing, row->figures);
        tagged++;
    }
    if (tagged) {
        snprintf(view->target_name, sizeof(view->target_name), "%zu tagged process%s", tagged,
                 tagged == 1 ? "" : "es");
    } else if (selected && selected->kind == ROW_PROCESS) {
        add_target(view, listing, selected->figures);
        name_target(view, selected);
    } else if (selected && selected->job) {
        add_targets_of(view, listing, selected);
        name_target(view, selected);
    }
}

static void open_signals(struct view *view, const struct listing *listing, double now)
{
    gather_targets(view, listing);
    if (!view->targets.count) {
        view_message(view, LOOK_DOUBTFUL, now, "select a process or a job to send a signal to");
        return;
    }
    view->panel = PANEL_SIGNALS;
    view->panel_selected = 0;
}

/* ---- panels ---- */

static void open_panel(struct view *view, enum panel panel)
{
    view->panel = panel;
    view->panel_selected = 0;
    if (panel != PANEL_SORT)
        return;
    const struct field *fields[COLUMNS_SORTABLE_MAX];
    size_t count = columns_sortable(fields);
    for (size_t i = 0; i < count; i++)
        if (fields[i] == view->sort)
            view->panel_selected = i;
}

static size_t panel_count(const struct view *view)
{
    const struct field *fields[COLUMNS_SORTABLE_MAX];

    switch (view->panel) {
    case PANEL_SORT: return columns_sortable(fields);
    case PANEL_SIGNALS: return signal_count;
    case PANEL_HELP: return key_count;
    default: return 0;
    }
}

static void apply_panel_choice(struct view *view, struct view_effect *effect)
{
    const struct field *fields[COLUMNS_SORTABLE_MAX];

    if (view->panel == PANEL_SORT) {
        columns_sortable(fields);
        if (fields[view->panel_selected] != view->sort)
            sort_by(view, fields[view->panel_selected]);
        view->panel = PANEL_NONE;
        effect->rebuilds = true;
    } else if (view->panel == PANEL_SIGNALS) {
        view->signal = signal_table[view->panel_selected].number;
        view->panel = PANEL_CONFIRM;
    } else {
        view->panel = PANEL_NONE;
    }
}

static void key_in_confirm(struct view *view, int key, double now, struct view_effect *effect)
{
    view->panel = PANEL_NONE;
    if (key == 'y' || key == 'Y')
        effect->kills = true;
    else
        view_message(view, LOOK_PLAIN, now, "no signal was sent");
}

static void key_in_panel(struct view *view, int key, double now, struct view_effect *effect)
{
    size_t last = panel_count(view) - 1;

    if (view->panel == PANEL_CONFIRM) {
        key_in_confirm(view, key, now, effect);
        return;
    }
    switch (key_action(key, &view->mode)) {
    case ACTION_UP: view->panel_selected -= view->panel_selected > 0; break;
    case ACTION_DOWN: view->panel_selected = MIN(view->panel_selected + 1, last); break;
    case ACTION_PAGE_UP: view->panel_selected -= MIN(view->panel_selected, (size_t)10); break;
    case ACTION_PAGE_DOWN: view->panel_selected = MIN(view->panel_selected + 10, last); break;
    case ACTION_HOME: view->panel_selected = 0; break;
    case ACTION_END: view->panel_selected = last; break;
    case ACTION_DETAIL: apply_panel_choice(view, effect); break;
    case ACTION_REDRAW: effect->redraws = true; break;
    default: view->panel = PANEL_NONE; break; /* any other key closes it */
    }
}

/* ---- prompts ---- */

static void open_prompt(struct view *view, enum prompt prompt)
{
    const char *before = prompt == PROMPT_FILTER ? view->filter : "";

    view->prompt = prompt;
    snprintf(view->input, sizeof(view->input), "%s", before);
    snprintf(view->before_prompt, sizeof(view->before_prompt), "%s", before);
}

/* Search and filter take effect while typing. */
static void apply_input(struct view *view, const struct listing *listing,
                        struct view_effect *effect)
{
    if (view->prompt == PROMPT_FILTER) {
        memcpy(view->filter, view->input, sizeof(view->filter));
        effect->rebuilds = true;
    } else if (view->prompt == PROMPT_SEARCH && view->input[0]) {
        memcpy(view->search, view->input, sizeof(view->search));
        search_from(view, listing, view->selected);
    }
}

static void finish_prompt(struct view *view, const struct listing *listing, double now,
                          struct view_effect *effect)
{
    enum prompt prompt = view->prompt;
    double time;

    view->prompt = PROMPT_NONE;
    if (prompt == PROMPT_SEARCH && view->search[0] && !search_from(view, listing, view->selected))
        view_message(view, LOOK_DOUBTFUL, now, "not found: %s", view->search);
    if (prompt != PROMPT_TIME || !view->input[0])
        return;
    if (time_spec_parse(view->input, now, &time) < 0) {
        view_message(view, LOOK_BAD, now, "'%s' is not a time; write 14:00, 14:03:20 or \"3m ago\"",
                     view->input);
        return;
    }
    effect->has_command = true;
    effect->command = (struct feed_command){FEED_SEEK, time};
}

static void cancel_prompt(struct view *view, struct view_effect *effect)
{
    if (view->prompt == PROMPT_FILTER) {
        memcpy(view->filter, view->before_prompt, sizeof(view->filter));
        effect->rebuilds = true;
    }
    view->prompt = PROMPT_NONE;
}

static void drop_character(char *input)
{
    size_t length = strlen(input);

    while (length && ((unsigned char)input[--length] & 0xC0) == 0x80)
        ;
    input[length] = '\0';
}

static void add_character(char *input, int key)
{
    char bytes[4];
    size_t length = strlen(input), size;

    if (key < ' ' || key >= KEYS_FIRST || utf8_is_control((uint32_t)key))
        return;
    size = utf8_encode((uint32_t)key, bytes);
    if (length + size < VIEW_INPUT_MAX) {
        memcpy(input + length, bytes, size);
        input[length + size] = '\0';
    }
}

static void key_in_prompt(struct view *view, const struct listing *listing, int key, double now,
                          struct view_effect *effect)
{
    switch (key) {
    case KEYS_ENTER: finish_prompt(view, listing, now, effect); return;
    case KEYS_ESCAPE: cancel_prompt(view, effect); return;
    case KEYS_BACKSPACE: drop_character(view->input); break;
    case KEYS_F0 + 3:
        if (view->prompt == PROMPT_SEARCH) /* as in htop: the next one */
            search_next(view, listing, now);
        return;
    case KEYS_UP:
    case KEYS_DOWN:
        if (view->prompt == PROMPT_SEARCH || view->prompt == PROMPT_FILTER)
            move_by(view, listing, key == KEYS_UP ? -1 : 1);
        return;
    default: add_character(view->input, key); break;
    }
    apply_input(view, listing, effect);
}

/* ---- keys ---- */

static void tag_row(struct view *view, const struct listing *listing)
{
    const struct row *selected = view_selected(view, listing);

    if (selected && selected->kind == ROW_PROCESS)
        key_set_toggle(&view->tagged, selected->key);
    move_by(view, listing, 1);
}

/* Each Esc cancels one thing. */
static void cancel(struct view *view, struct view_effect *effect)
{
    if (view->has_detail)
        view->has_detail = false;
    else if (view->filter[0]) {
        view->filter[0] = '\0';
        effect->rebuilds = true;
    } else if (view->follows)
        view->follows = false;
    else
        key_set_clear(&view->tagged);
    view->message[0] = '\0';
}

static void command_feed(struct view_effect *effect, enum feed_order order, double amount)
{
    effect->has_command = true;
    effect->command = (struct feed_command){order, amount};
}

/* Pauses the feed in a replay, else only the screen. */
static void toggle_pause(struct view *view, struct view_effect *effect)
{
    if (view->mode.is_history)
        command_feed(effect, FEED_PLAY_OR_PAUSE, 0);
    else
        view->is_paused = !view->is_paused;
    effect->rebuilds = true;
}

static void go_to_alarm(struct view *view, const struct listing *listing, bool is_next, double now,
                        struct view_effect *effect)
{
    if (view->mode.is_history) {
        command_feed(effect, FEED_ANOMALY, is_next ? 1 : -1);
        view->wants_alarm = true;
    } else
        find_alarm(view, listing, is_next, now);
}

static bool handle_move(struct view *view, const struct listing *listing, enum action action)
{
    ptrdiff_t page = (ptrdiff_t)MAX(view->page, (size_t)2) - 1;

    switch (action) {
    case ACTION_UP: move_by(view, listing, -1); break;
    case ACTION_DOWN: move_by(view, listing, 1); break;
    case ACTION_PAGE_UP: move_by(view, listing, -page); break;
    case ACTION_PAGE_DOWN: move_by(view, listing, page); break;
    case ACTION_HOME: select_row(view, listing, 0); break;
    case ACTION_END: select_row(view, listing, listing->rows.count); break;
    case ACTION_LEFT: view->shift -= MIN(view->shift, (size_t)SHIFT_STEP); break;
    case ACTION_RIGHT:
        view->shift = MIN(view->shift + SHIFT_STEP, (size_t)COMMAND_MAX_BYTES);
        break;
    default: return false;
    }
    return true;
}

static bool handle_replay(enum action action, struct view_effect *effect)
{
    switch (action) {
    case ACTION_STEP: command_feed(effect, FEED_STEP, 1); break;
    case ACTION_STEP_BACK: command_feed(effect, FEED_STEP, -1); break;
    case ACTION_SKIP: command_feed(effect, FEED_SKIP, 60); break;
    case ACTION_SKIP_BACK: command_feed(effect, FEED_SKIP, -60); break;
    case ACTION_FASTER: command_feed(effect, FEED_SPEED, SPEED_FACTOR); break;
    case ACTION_SLOWER: command_feed(effect, FEED_SPEED, 1 / SPEED_FACTOR); break;
    default: return false;
    }
    return true;
}

static bool handle_arrangement(struct view *view, const struct listing *listing, enum action action)
{
    switch (action) {
    case ACTION_ARRANGE: view->arrangement = (view->arrangement + 1) % ARRANGEMENTS; break;
    case ACTION_SORT_CPU: sort_by_name(view, "cpu_percent"); break;
    case ACTION_SORT_MEMORY: sort_by_name(view, "rss_mb"); break;
    case ACTION_SORT_TIME: sort_by_name(view, "cpu_seconds"); break;
    case ACTION_SORT_PID: sort_by_name(view, "pid"); break;
    case ACTION_INVERT: view->is_ascending = !view->is_ascending; break;
    case ACTION_FOLD: fold_row(view, listing); break;
    case ACTION_FOLD_ALL: fold_all(view, listing); break;
    default: return false;
    }
    return true;
}

static void handle_action(struct view *view, const struct listing *listing, enum action action,
                          double now, struct view_effect *effect)
{
    switch (action) {
    case ACTION_DETAIL: view->has_detail = !view->has_detail; break;
    case ACTION_TAG: tag_row(view, listing); break;
    case ACTION_UNTAG_ALL: key_set_clear(&view->tagged); break;
    case ACTION_FOLLOW: view->follows = !view->follows; break;
    case ACTION_SEARCH: open_prompt(view, PROMPT_SEARCH); break;
    case ACTION_SEARCH_NEXT: search_next(view, listing, now); break;
    case ACTION_FILTER: open_prompt(view, PROMPT_FILTER); break;
    case ACTION_JUMP: open_prompt(view, PROMPT_TIME); break;
    case ACTION_SORT: open_panel(view, PANEL_SORT); break;
    case ACTION_HELP: open_panel(view, PANEL_HELP); break;
    case ACTION_KILL: open_signals(view, listing, now); break;
    case ACTION_TIMELINE: view->has_timeline = !view->has_timeline; break;
    case ACTION_PAUSE: toggle_pause(view, effect); break;
    case ACTION_NEXT_ALARM: go_to_alarm(view, listing, true, now, effect); break;
    case ACTION_PREVIOUS_ALARM: go_to_alarm(view, listing, false, now, effect); break;
    case ACTION_CANCEL: cancel(view, effect); break;
    case ACTION_REDRAW: effect->redraws = true; break;
    case ACTION_QUIT: effect->quits = true; break;
    default: break;
    }
}

struct view_effect view_key(struct view *view, const struct listing *listing, int key, double now)
{
    struct view_effect effect = {0};

    if (now >= view->message_until)
        view->message[0] = '\0';
    if (view->prompt) {
        key_in_prompt(view, listing, key, now, &effect);
    } else if (view->panel) {
        key_in_panel(view, key, now, &effect);
    } else {
        enum action action = key_action(key, &view->mode);
        if (handle_arrangement(view, listing, action))
            effect.rebuilds = true;
        else if (!handle_move(view, listing, action) && !handle_replay(action, &effect))
            handle_action(view, listing, action, now, &effect);
    }
    return effect;
}
