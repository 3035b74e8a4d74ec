#include "report/style.h"

#include <string.h>

#include "model/job.h"

static const char *const codes[] = {
    [TINT_NONE] = "",         [TINT_BOLD] = "\033[1m",
    [TINT_GOOD] = "\033[32m", [TINT_DOUBTFUL] = "\033[33m",
    [TINT_BAD] = "\033[31m",
};

enum tint outcome_tint(int outcome)
{
    switch (outcome) {
    case OUTCOME_SUCCESS: return TINT_GOOD;
    case OUTCOME_FAILURE: return TINT_BAD;
    default: return TINT_DOUBTFUL;
    }
}

void style_begin(const struct report_style *style, enum tint tint, struct text *out)
{
    if (style->with_colour)
        text_append_string(out, codes[tint]);
}

void style_end(const struct report_style *style, enum tint tint, struct text *out)
{
    if (style->with_colour && tint != TINT_NONE)
        text_append_string(out, "\033[0m");
}

void style_finish(const struct report_style *style, size_t start, struct text *out)
{
    if (style->is_ascii)
        text_to_ascii(out, start);
}

void style_label(const char *label, struct text *out)
{
    text_printf(out, "  %-11s", label);
}

void style_heading(const struct report_style *style, const char *heading, struct text *out)
{
    text_append_char(out, '\n');
    style_begin(style, TINT_BOLD, out);
    text_append_string(out, heading);
    style_end(style, TINT_BOLD, out);
}

void style_visible(const char *text, struct text *out)
{
    if (!text)
        text = "-";
    text_append_visible(out, text, strlen(text), SIZE_MAX);
}

void style_tinted(const struct report_style *style, enum tint tint, const char *text,
                  struct text *out)
{
    style_begin(style, tint, out);
    style_visible(text, out);
    style_end(style, tint, out);
}

void style_line(const char *label, const char *text, struct text *out)
{
    if (!text)
        return;
    style_label(label, out);
    style_visible(text, out);
    text_append_char(out, '\n');
}
