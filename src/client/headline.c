#include "client/headline.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copies a text to the end of the headline. */
static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;

    if (!text)
        return NULL;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

struct headline *headline_new(const struct event_line *line)
{
    const char *label = event_line_label(line), *run_id = event_line_run_id(line),
               *command = event_line_command(line);
    _cleanup_text_ struct text what = {0};

    event_line_format_details(line, &what);
    if (command) {
        text_append_string(&what, what.length ? "  " : "");
        style_visible(command, &what);
    }
    if (text_error(&what) < 0)
        return NULL;
    const char *text = text_string(&what);
    struct headline *headline = malloc(sizeof(*headline) + size_of(label) + size_of(line->job_id) +
                                       size_of(run_id) + size_of(text));
    if (!headline)
        return NULL;
    char *at = (char *)(headline + 1);
    *headline = (struct headline){
        .timestamp = event_line_time(line),
        .name = event_line_name(line),
        .label = copy_text(&at, label),
        .tint = event_line_tint(line),
        .pid = event_line_pid(line),
        .job_id = copy_text(&at, line->job_id),
        .run_id = copy_text(&at, run_id),
        .text = copy_text(&at, text),
    };
    return headline;
}
