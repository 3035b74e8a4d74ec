#include "top/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "top/curses-loader.h"
#include "top/keys.h"

/* Long enough for the bytes of one key over a slow line, short enough for Esc to feel immediate. */
#define ESCAPE_MSEC 25

struct terminal {
    const struct curses *curses;
    SCREEN *screen;
    WINDOW *window;
    FILE *keys; /* NULL: standard input */
    bool with_colour;
    bool is_suspended;
    unsigned rows, columns; /* the size that ncurses has */
    struct canvas shown;
};

/* ---- looks ---- */

#define DEFAULT (-1)

static const struct {
    short foreground, background;
    attr_t with_colour; /* in addition to the colours */
    attr_t without;
} looks[LOOK_COUNT] = {
    [LOOK_PLAIN] = {DEFAULT, DEFAULT, A_NORMAL, A_NORMAL},
    [LOOK_DIM] = {DEFAULT, DEFAULT, A_DIM, A_DIM},
    [LOOK_BOLD] = {DEFAULT, DEFAULT, A_BOLD, A_BOLD},
    [LOOK_GOOD] = {COLOR_GREEN, DEFAULT, A_NORMAL, A_NORMAL},
    [LOOK_DOUBTFUL] = {COLOR_YELLOW, DEFAULT, A_NORMAL, A_UNDERLINE},
    [LOOK_BAD] = {COLOR_RED, DEFAULT, A_BOLD, A_BOLD | A_UNDERLINE},
    [LOOK_ACCENT] = {COLOR_CYAN, DEFAULT, A_NORMAL, A_NORMAL},
    [LOOK_JOB] = {COLOR_CYAN, DEFAULT, A_BOLD, A_BOLD},
    [LOOK_EVENT] = {COLOR_BLUE, DEFAULT, A_NORMAL, A_NORMAL},
    [LOOK_HEADING] = {COLOR_BLACK, COLOR_GREEN, A_NORMAL, A_REVERSE},
    [LOOK_SORTED] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE | A_BOLD},
    [LOOK_SELECTED] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE},
    [LOOK_FOLLOWED] = {COLOR_BLACK, COLOR_YELLOW, A_NORMAL, A_REVERSE | A_BOLD},
    [LOOK_TAGGED] = {COLOR_YELLOW, DEFAULT, A_BOLD, A_BOLD},
    [LOOK_FOUND] = {COLOR_MAGENTA, DEFAULT, A_BOLD, A_UNDERLINE},
    [LOOK_KEY] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE},
    [LOOK_ALARM] = {COLOR_WHITE, COLOR_RED, A_BOLD, A_REVERSE | A_BOLD},
};

static void make_looks(struct terminal *terminal)
{
    const struct curses *curses = terminal->curses;

    if (!terminal->with_colour || !curses->has_colors() || curses->start_color() == ERR) {
        terminal->with_colour = false;
        return;
    }
    /* Without support for the default background, use black. */
    short background = curses->use_default_colors() == OK ? DEFAULT : COLOR_BLACK;
    short foreground = background == DEFAULT ? DEFAULT : COLOR_WHITE;
    for (short i = 0; i < LOOK_COUNT; i++)
        curses->init_pair((short)(i + 1),
                          looks[i].foreground == DEFAULT ? foreground : looks[i].foreground,
                          looks[i].background == DEFAULT ? background : looks[i].background);
}

static void set_look(const struct terminal *terminal, enum look look)
{
    if (terminal->with_colour)
        terminal->curses->wattr_set(terminal->window, looks[look].with_colour, (short)(look + 1),
                                    NULL);
    else
        terminal->curses->wattr_set(terminal->window, looks[look].without, 0, NULL);
}

/* ---- starting and stopping ---- */

bool terminal_set_locale(void)
{
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int set_error(struct terminal_error *error, int r, const char *message)
{
    const char *name = getenv("TERM");

    snprintf(error->text, sizeof(error->text), "%s (TERM is '%.40s')", message, name ? name : "");
    return r;
}

/* Opens standard input a second time, non-blocking: while a shell takes the terminal back and
 * returns it, pending input may be consumed by the shell before it is read here, and a blocking
 * read would then wait for a whole line. Standard input itself is shared with programs that expect
 * it to block. Returns NULL if it cannot be opened, such as another user's terminal. */
static FILE *open_keys(void)
{
    _cleanup_close_ int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    FILE *keys = fd < 0 ? NULL : fdopen(fd, "r");

    if (keys)
        fd = -1;
    return keys;
}

static int open_screen(struct terminal *terminal, struct terminal_error *error)
{
    const struct curses *curses = terminal->curses;

    terminal->keys = open_keys();
    terminal->screen = curses->newterm(NULL, stdout, terminal->keys ? terminal->keys : stdin);
    if (!terminal->screen)
        return set_error(error, -ENOTTY, "this terminal cannot be used; set TERM, or use --json");
    terminal->window = curses->newwin(0, 0, 0, 0);
    if (!terminal->window)
        return set_error(error, -ENOMEM, "out of memory");
    curses->cbreak();
    curses->noecho();
    curses->nonl();
    curses->curs_set(0);
    curses->set_escdelay(ESCAPE_MSEC);
    curses->keypad(terminal->window, TRUE);
    curses->nodelay(terminal->window, TRUE);
    make_looks(terminal);
    return 0;
}

int terminal_start(const struct terminal_options *options, struct terminal **ret,
                   struct terminal_error *error)
{
    struct terminal *terminal = calloc(1, sizeof(*terminal));
    const char *reason = NULL;

    if (!terminal) {
        snprintf(error->text, sizeof(error->text), "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    terminal->with_colour = options->with_colour;
    int r = curses_load(&terminal->curses, &reason);
    if (r == -ENOENT)
        snprintf(error->text, sizeof(error->text),
                 "the screen needs ncurses (package libncursesw6), or use --json: %s", reason);
    else if (r < 0)
        set_error(error, r, reason);
    else
        r = open_screen(terminal, error);
    if (r < 0) {
        terminal_stop(terminal);
        return r;
    }
    *ret = terminal;
    return 0;
}

void terminal_stop(struct terminal *terminal)
{
    if (!terminal)
        return;
    if (terminal->screen && !terminal->is_suspended)
        terminal->curses->endwin();
    if (terminal->window)
        terminal->curses->delwin(terminal->window);
    if (terminal->screen)
        terminal->curses->delscreen(terminal->screen);
    if (terminal->keys)
        fclose(terminal->keys);
    canvas_done(&terminal->shown);
    free(terminal);
}

int terminal_keys_fd(const struct terminal *terminal)
{
    return terminal->keys ? fileno(terminal->keys) : STDIN_FILENO;
}

void terminal_suspend(struct terminal *terminal)
{
    terminal->curses->endwin();
    terminal->is_suspended = true;
}

void terminal_size(const struct terminal *terminal _unused_, unsigned *ret_rows,
                   unsigned *ret_columns)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
}

/* ---- drawing ---- */

static bool is_same_span(const struct canvas_span *a, const struct canvas_span *b)
{
    return a->look == b->look && a->offset == b->offset && a->length == b->length &&
           a->column == b->column;
}

static bool is_same_row(const struct canvas_row *a, const struct canvas_row *b)
{
    if (a->whole != b->whole || a->width != b->width || a->bytes.length != b->bytes.length ||
        a->spans.count != b->spans.count)
        return false;
    for (size_t i = 0; i < a->spans.count; i++)
        if (!is_same_span(&a->spans.items[i], &b->spans.items[i]))
            return false;
    return !a->bytes.length || memcmp(a->bytes.bytes, b->bytes.bytes, a->bytes.length) == 0;
}

/* Each piece is placed at its own column, so a terminal that measures a character differently
 * shifts only the rest of the piece, not the rest of the row. */
static void draw_span(const struct terminal *terminal, int y, const struct canvas_row *row,
                      const struct canvas_span *span)
{
    const char *bytes = row->bytes.bytes + span->offset;
    wchar_t wide[CANVAS_COLUMNS_MAX + 1];
    int count = 0;

    set_look(terminal, row->whole ? row->whole : span->look);
    for (size_t i = 0; i < span->length && count < CANVAS_COLUMNS_MAX;) {
        uint32_t character;
        size_t size = utf8_decode(bytes + i, span->length - i, &character);
        if (!size)
            break;
        wide[count++] = (wchar_t)character;
        i += size;
    }
    terminal->curses->wmove(terminal->window, y, (int)span->column);
    terminal->curses->waddnwstr(terminal->window, wide, count);
}

static void draw_row(const struct terminal *terminal, int y, const struct canvas_row *row,
                     unsigned columns)
{
    static const wchar_t blank[] = L" ";

    for (size_t i = 0; i < row->spans.count; i++)
        draw_span(terminal, y, row, &row->spans.items[i]);
    if (row->width >= columns)
        return;
    terminal->curses->wmove(terminal->window, y, (int)row->width);
    set_look(terminal, row->whole);
    for (unsigned i = row->width; row->whole && i < columns; i++)
        terminal->curses->waddnwstr(terminal->window, blank, 1);
    if (!row->whole)
        terminal->curses->wclrtoeol(terminal->window);
}

static int copy_row(const struct canvas_row *from, struct canvas_row *to)
{
    text_reset(&to->bytes);
    text_append(&to->bytes, text_string(&from->bytes), from->bytes.length);
    to->spans.count = 0;
    int r = VEC_RESERVE(&to->spans, from->spans.count);
    if (r == 0 && from->spans.count)
        memcpy(to->spans.items, from->spans.items, from->spans.count * sizeof(*from->spans.items));
    to->spans.count = r == 0 ? from->spans.count : 0;
    to->width = from->width;
    to->whole = from->whole;
    return r < 0 ? r : text_error(&to->bytes);
}

static void resize(struct terminal *terminal, const struct canvas *canvas)
{
    terminal->curses->resizeterm((int)canvas->rows, (int)canvas->columns);
    terminal->curses->wresize(terminal->window, (int)canvas->rows, (int)canvas->columns);
    terminal->rows = canvas->rows;
    terminal->columns = canvas->columns;
}

void terminal_show(struct terminal *terminal, const struct canvas *canvas, bool anew)
{
    const struct curses *curses = terminal->curses;
    struct canvas *shown = &terminal->shown;

    if (!canvas->rows || !canvas->columns)
        return;
    if (terminal->rows != canvas->rows || terminal->columns != canvas->columns) {
        resize(terminal, canvas);
        anew = true;
    }
    if (anew) {
        curses->clearok(terminal->window, TRUE);
        if (canvas_begin(shown, canvas->rows, canvas->columns, canvas->is_ascii) < 0)
            return;
    }
    terminal->is_suspended = false;
    for (unsigned i = 0; i < canvas->rows; i++) {
        if (!anew && is_same_row(&canvas->items[i], &shown->items[i]))
            continue;
        draw_row(terminal, (int)i, &canvas->items[i], canvas->columns);
        if (copy_row(&canvas->items[i], &shown->items[i]) < 0)
            shown->items[i].width = UINT_MAX; /* draw it again next time */
    }
    curses->wnoutrefresh(terminal->window);
    curses->doupdate();
}

/* ---- keys ---- */

static int translate_special(wint_t code)
{
    static const struct {
        wint_t code;
        int key;
    } keys[] = {
        {KEY_UP, KEYS_UP},         {KEY_DOWN, KEYS_DOWN},
        {KEY_LEFT, KEYS_LEFT},     {KEY_RIGHT, KEYS_RIGHT},
        {KEY_PPAGE, KEYS_PAGE_UP}, {KEY_NPAGE, KEYS_PAGE_DOWN},
        {KEY_HOME, KEYS_HOME},     {KEY_END, KEYS_END},
        {KEY_ENTER, KEYS_ENTER},   {KEY_BACKSPACE, KEYS_BACKSPACE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i].code == code)
            return keys[i].key;
    if (code > KEY_F0 && code <= KEY_F0 + 12)
        return KEYS_F0 + (int)(code - KEY_F0);
    return KEYS_FIRST; /* no action */
}

static int translate(wint_t character)
{
    switch (character) {
    case '\r':
    case '\n': return KEYS_ENTER;
    case '\t': return KEYS_TAB;
    case 0x1B: return KEYS_ESCAPE;
    case 0x08:
    case 0x7F: return KEYS_BACKSPACE;
    case 0x0C: return KEYS_REDRAW;
    default: return character < ' ' ? KEYS_FIRST : (int)character;
    }
}

int terminal_key(struct terminal *terminal)
{
    wint_t code;
    int r = terminal->curses->wget_wch(terminal->window, &code);

    if (r == ERR)
        return 0;
    return r == KEY_CODE_YES ? translate_special(code) : translate(code);
}
