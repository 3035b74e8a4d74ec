#include "top/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/cleanup.h"
#include "base/utf8.h"

static const struct glyphs unicode_glyphs = {
    .bar = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"},
    .spark = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
    .rest = "·",
    .folded = "▸ ",
    .unfolded = "▾ ",
    .branch = "├─ ",
    .corner = "└─ ",
    .pipe = "│  ",
    .blank = "   ",
    .line = "─",
    .tag = "●",
    .alarm = "▲",
    .dot = " · ",
    .up = "▲",
    .down = "▼",
    .playing = "▶",
    .paused = "||",
    .cut = "…",
};

static const struct glyphs ascii_glyphs = {
    .bar = {" ", " ", " ", " ", "|", "|", "|", "|", "|"},
    .spark = {" ", "_", ".", ":", "-", "=", "+", "*", "#"},
    .rest = ".",
    .folded = "+ ",
    .unfolded = "- ",
    .branch = "|- ",
    .corner = "`- ",
    .pipe = "|  ",
    .blank = "   ",
    .line = "-",
    .tag = "*",
    .alarm = "!",
    .dot = " - ",
    .up = "^",
    .down = "v",
    .playing = ">",
    .paused = "||",
    .cut = "~",
};

/* ---- the canvas ---- */

static void row_done(struct canvas_row *row)
{
    text_done(&row->bytes);
    VEC_DONE(&row->spans);
}

int canvas_begin(struct canvas *canvas, unsigned rows, unsigned columns, bool is_ascii)
{
    rows = MIN(rows, (unsigned)CANVAS_ROWS_MAX);
    if (rows > canvas->capacity) {
        struct canvas_row *items = realloc(canvas->items, rows * sizeof(*items));
        if (!items)
            return -ENOMEM;
        memset(items + canvas->capacity, 0, (rows - canvas->capacity) * sizeof(*items));
        canvas->items = items;
        canvas->capacity = rows;
    }
    canvas->rows = rows;
    canvas->columns = MIN(columns, (unsigned)CANVAS_COLUMNS_MAX);
    canvas->is_ascii = is_ascii;
    canvas->glyphs = is_ascii ? &ascii_glyphs : &unicode_glyphs;
    canvas->error = 0;
    for (unsigned i = 0; i < rows; i++)
        row_clear(canvas, i);
    return 0;
}

void canvas_done(struct canvas *canvas)
{
    for (unsigned i = 0; i < canvas->capacity; i++)
        row_done(&canvas->items[i]);
    free(canvas->items);
    *canvas = (struct canvas){0};
}

int canvas_error(const struct canvas *canvas)
{
    return canvas->error;
}

/* ---- rows ---- */

static struct canvas_row *find(const struct canvas *canvas, unsigned row)
{
    return row < canvas->rows ? &canvas->items[row] : NULL;
}

void row_clear(struct canvas *canvas, unsigned row)
{
    struct canvas_row *at = find(canvas, row);

    if (!at)
        return;
    text_reset(&at->bytes);
    at->spans.count = 0;
    at->width = 0;
    at->whole = LOOK_PLAIN;
}

/* Adjacent pieces of the same look are merged. */
static void extend_span(struct canvas *canvas, struct canvas_row *row, enum look look,
                        size_t offset, unsigned column)
{
    struct canvas_span *last = row->spans.count ? &row->spans.items[row->spans.count - 1] : NULL;
    size_t length = row->bytes.length - offset;

    if (!length)
        return;
    if (last && last->look == look && last->offset + last->length == offset)
        last->length += length;
    else if (VEC_PUSH(&row->spans, (struct canvas_span){look, offset, length, column}) < 0)
        canvas->error = -ENOMEM;
}

/* Appends one character; returns false if it does not fit. */
static bool put_character(struct canvas *canvas, struct canvas_row *row, const char *bytes,
                          size_t length, uint32_t character)
{
    const char *ascii = canvas->is_ascii ? ascii_find(character) : NULL;
    unsigned columns = ascii ? (unsigned)strlen(ascii) : utf8_columns(character);

    if (row->width + columns > canvas->columns)
        return false;
    if (ascii)
        text_append_string(&row->bytes, ascii);
    else if (canvas->is_ascii && character > 0x7E)
        text_append_repeated(&row->bytes, '?', columns);
    else
        text_append(&row->bytes, bytes, length);
    row->width += columns;
    return true;
}

static void put(struct canvas *canvas, unsigned row, enum look look, const char *text,
                size_t length)
{
    struct canvas_row *at = find(canvas, row);

    if (!at)
        return;
    size_t offset = at->bytes.length;
    unsigned column = at->width;
    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        if (!size || !put_character(canvas, at, text + i, size, character))
            break;
        i += size;
    }
    extend_span(canvas, at, look, offset, column);
    if (text_error(&at->bytes) < 0)
        canvas->error = text_error(&at->bytes);
}

void row_put(struct canvas *canvas, unsigned row, enum look look, const char *text)
{
    put(canvas, row, look, text, strlen(text));
}

void row_printf(struct canvas *canvas, unsigned row, enum look look, const char *format, ...)
{
    _cleanup_text_ struct text text = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&text, format, arguments);
    va_end(arguments);
    put(canvas, row, look, text_string(&text), text.length);
    if (text_error(&text) < 0)
        canvas->error = text_error(&text);
}

/* Text that was cut ends in "…"; in ASCII its replacement must be one column wide too. */
static void put_cut(struct canvas *canvas, unsigned row, enum look look, const struct text *text)
{
    static const char ellipsis[] = "…";
    size_t length = text->length, end = sizeof(ellipsis) - 1;
    bool is_cut =
        canvas->is_ascii && length >= end && memcmp(text->bytes + length - end, ellipsis, end) == 0;

    put(canvas, row, look, text_string(text), is_cut ? length - end : length);
    if (is_cut)
        row_put(canvas, row, look, canvas->glyphs->cut);
    if (text_error(text) < 0)
        canvas->error = text_error(text);
}

void row_visible(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t max_columns)
{
    _cleanup_text_ struct text shown = {0};

    text_append_visible(&shown, text, strlen(text),
                        MIN(max_columns, (size_t)row_left(canvas, row)));
    put_cut(canvas, row, look, &shown);
}

void row_shifted(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t shift)
{
    _cleanup_text_ struct text shown = {0}, rest = {0};
    size_t skipped = 0, i = 0;

    text_append_visible(&shown, text, strlen(text), SIZE_MAX);
    while (i < shown.length && skipped < shift) {
        uint32_t character;
        size_t size = utf8_decode(shown.bytes + i, shown.length - i, &character);
        skipped += utf8_columns(character);
        i += MAX(size, (size_t)1);
    }
    text_append_visible(&rest, text_string(&shown) + i, shown.length - i, row_left(canvas, row));
    put_cut(canvas, row, look, &rest);
    if (text_error(&shown) < 0)
        canvas->error = text_error(&shown);
}

void row_repeat(struct canvas *canvas, unsigned row, enum look look, const char *glyph,
                size_t times)
{
    size_t length = strlen(glyph);

    for (size_t i = 0; i < times && row_left(canvas, row); i++)
        put(canvas, row, look, glyph, length);
}

void row_pad(struct canvas *canvas, unsigned row, enum look look, unsigned column)
{
    unsigned width = row_width(canvas, row);

    if (column > width)
        row_repeat(canvas, row, look, " ", column - width);
}

void row_whole(struct canvas *canvas, unsigned row, enum look look)
{
    struct canvas_row *at = find(canvas, row);

    if (at)
        at->whole = look;
}

unsigned row_width(const struct canvas *canvas, unsigned row)
{
    const struct canvas_row *at = find(canvas, row);
    return at ? at->width : 0;
}

unsigned row_left(const struct canvas *canvas, unsigned row)
{
    const struct canvas_row *at = find(canvas, row);
    return at ? canvas->columns - at->width : 0;
}
