#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "top/columns.h"
#include "top/draw.h"

#define PANEL_COLUMNS 46
#define KEYS_COLUMNS  9

/* ---- the bar at the bottom ---- */

/* "F9" of "F9 k", "Z" of "Z p". */
static int first_word(const char *keys)
{
    return (int)strcspn(keys, " ");
}

static void put_keys(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    for (size_t i = 0; i < key_count; i++) {
        const struct key_entry *entry = &key_table[i];
        if (!entry->bar || !key_is_enabled(entry, &screen->view->mode))
            continue;
        int word = first_word(entry->keys);
        if (row_left(canvas, row) < (unsigned)word + strlen(entry->bar) + 1)
            continue;
        row_printf(canvas, row, LOOK_BOLD, "%.*s", word, entry->keys);
        row_printf(canvas, row, LOOK_KEY, "%s ", entry->bar);
    }
    if (row_left(canvas, row) > 8)
        row_printf(canvas, row, LOOK_DIM, " %s", arrangement_name(screen->view->arrangement));
}

static void put_prompt(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    static const char *const prompts[] = {[PROMPT_SEARCH] = "Search: ",
                                          [PROMPT_FILTER] = "Filter: ",
                                          [PROMPT_TIME] = "Jump to (14:00, \"3m ago\"): "};

    row_put(canvas, row, LOOK_KEY, prompts[screen->view->prompt]);
    row_visible(canvas, row, LOOK_BOLD, screen->view->input, SIZE_MAX);
    row_put(canvas, row, LOOK_SELECTED, " ");
    if (screen->view->prompt == PROMPT_SEARCH && row_left(canvas, row) > 30)
        row_put(canvas, row, LOOK_DIM, "  Enter done  F3 next  Esc cancel");
}

static void put_states(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct view *view = screen->view;

    if (view->filter[0]) {
        row_put(canvas, row, LOOK_KEY, "filter ");
        row_visible(canvas, row, LOOK_DOUBTFUL, view->filter, 20);
        row_put(canvas, row, LOOK_PLAIN, " ");
    }
    if (view->tagged.keys.count)
        row_printf(canvas, row, LOOK_TAGGED, "%zu tagged ", view->tagged.keys.count);
    if (view->follows)
        row_put(canvas, row, LOOK_FOLLOWED, "following ");
}

void draw_bar(const struct screen *screen, struct canvas *canvas, struct part part)
{
    const struct view *view = screen->view;

    if (!part.count)
        return;
    if (view->prompt) {
        put_prompt(screen, canvas, part.at);
    } else if (view->message[0] && screen->now < view->message_until) {
        row_visible(canvas, part.at, view->message_look, view->message, SIZE_MAX);
    } else {
        put_states(screen, canvas, part.at);
        put_keys(screen, canvas, part.at);
    }
}

/* ---- boxes ---- */

struct box {
    unsigned at;   /* its first row */
    unsigned rows; /* within */
    size_t first;  /* entry in its first row */
};

/* Clears the rows of the table for a list and draws its title. */
static struct box open_box(const struct screen *screen, struct canvas *canvas, size_t count,
                           const char *title)
{
    struct layout layout = screen_layout(screen, canvas->rows, canvas->columns);
    unsigned at = layout.heading.at, end = canvas->rows - layout.bar.count;
    struct box box = {.at = at + 1, .rows = end > at + 1 ? end - at - 1 : 0};
    size_t selected = screen->view->panel_selected;

    for (unsigned i = at; i < end; i++)
        row_clear(canvas, i);
    row_put(canvas, at, LOOK_HEADING, title);
    row_whole(canvas, at, LOOK_HEADING);
    if (box.rows && selected >= box.rows)
        box.first = selected - box.rows + 1;
    if (box.rows > count - box.first)
        box.rows = (unsigned)(count - box.first);
    return box;
}

static void mark_selected(const struct screen *screen, struct canvas *canvas, const struct box *box)
{
    size_t place = screen->view->panel_selected - box->first;

    if (place < box->rows)
        row_whole(canvas, box->at + (unsigned)place, LOOK_SELECTED);
}

/* ---- help ---- */

static size_t list_known(const struct screen *screen, const struct key_entry **ret)
{
    size_t count = 0;

    for (size_t i = 0; i < key_count; i++)
        if (key_is_enabled(&key_table[i], &screen->view->mode))
            ret[count++] = &key_table[i];
    return count;
}

static void put_entry(struct canvas *canvas, unsigned row, const struct key_entry *entry)
{
    unsigned at = row_width(canvas, row);

    row_put(canvas, row, LOOK_BOLD, " ");
    row_put(canvas, row, LOOK_BOLD, entry->keys);
    row_pad(canvas, row, LOOK_PLAIN, at + KEYS_COLUMNS);
    row_put(canvas, row, LOOK_PLAIN, entry->meaning);
}

/* Draws the keys in as many columns as fit; Up and Down scroll. */
static void draw_help(const struct screen *screen, struct canvas *canvas)
{
    const struct key_entry *entries[64];
    size_t count = list_known(screen, entries);
    struct box box =
        open_box(screen, canvas, SIZE_MAX, " sonde top: keys (any other key closes this help)");
    unsigned across = MAX(canvas->columns / PANEL_COLUMNS, 1U);
    size_t lines = (count + across - 1) / across;
    size_t first = lines > box.rows ? MIN(screen->view->panel_selected, lines - box.rows) : 0;

    for (unsigned i = 0; i < box.rows && first + i < lines; i++)
        for (unsigned k = 0; k < across; k++) {
            size_t entry = k * lines + first + i;
            row_pad(canvas, box.at + i, LOOK_PLAIN, k * PANEL_COLUMNS);
            if (entry < count)
                put_entry(canvas, box.at + i, entries[entry]);
        }
}

/* ---- lists ---- */

static void draw_sort(const struct screen *screen, struct canvas *canvas)
{
    const struct field *fields[COLUMNS_SORTABLE_MAX];
    size_t count = columns_sortable(fields);
    struct box box = open_box(screen, canvas, count, " sort by: Enter selects, Esc cancels");

    for (unsigned i = 0; i < box.rows; i++) {
        const struct field *field = fields[box.first + i];
        row_printf(canvas, box.at + i, field == screen->view->sort ? LOOK_BOLD : LOOK_PLAIN,
                   " %-8s ", field->title);
        row_put(canvas, box.at + i, LOOK_DIM, field->meaning);
    }
    mark_selected(screen, canvas, &box);
}

static void draw_signals(const struct screen *screen, struct canvas *canvas)
{
    _cleanup_text_ struct text title = {0};

    text_printf(&title, " send a signal to %s: Enter selects, Esc cancels",
                screen->view->target_name);
    struct box box = open_box(screen, canvas, signal_count, text_string(&title));
    for (unsigned i = 0; i < box.rows; i++) {
        const struct signal_entry *entry = &signal_table[box.first + i];
        row_printf(canvas, box.at + i, LOOK_PLAIN, " %3d  %s", entry->number, entry->name);
    }
    mark_selected(screen, canvas, &box);
}

/* Draws the question in the bottom row, so that the selected process stays visible. */
static void draw_confirm(const struct screen *screen, struct canvas *canvas)
{
    struct layout layout = screen_layout(screen, canvas->rows, canvas->columns);
    unsigned row = layout.bar.count ? layout.bar.at : canvas->rows - 1;
    struct human name;

    row_clear(canvas, row);
    row_printf(canvas, row, LOOK_ALARM, " Send %s to ", human_signal(&name, screen->view->signal));
    row_visible(canvas, row, LOOK_ALARM, screen->view->target_name,
                row_left(canvas, row) > 11 ? row_left(canvas, row) - 11 : 0);
    row_put(canvas, row, LOOK_ALARM, "? y/n ");
}

void draw_panel(const struct screen *screen, struct canvas *canvas)
{
    switch (screen->view->panel) {
    case PANEL_HELP: draw_help(screen, canvas); break;
    case PANEL_SORT: draw_sort(screen, canvas); break;
    case PANEL_SIGNALS: draw_signals(screen, canvas); break;
    case PANEL_CONFIRM: draw_confirm(screen, canvas); break;
    default: break;
    }
}
