#include "client/headline.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copies a text to the end of the headline. */
static const char *place(char **at, const char *text)
{
    char *copy = *at;

    if (!text)
        return NULL;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

struct headline *headline_new(const struct event_line *news)
{
    const char *word = event_line_label(news), *run_id = event_line_run_id(news),
               *command = event_line_command(news);
    _cleanup_text_ struct text what = {0};

    event_line_format_details(news, &what);
    if (command) {
        text_append_string(&what, what.length ? "  " : "");
        style_visible(command, &what);
    }
    if (text_error(&what) < 0)
        return NULL;
    const char *text = text_string(&what);
    struct headline *headline = malloc(sizeof(*headline) + size_of(news->event) + size_of(word) +
                                       size_of(news->job_id) + size_of(run_id) + size_of(text));
    if (!headline)
        return NULL;
    char *at = (char *)(headline + 1);
    *headline = (struct headline){
        .timestamp = event_line_time(news),
        .event = place(&at, news->event),
        .word = place(&at, word),
        .tint = event_line_tint(news),
        .pid = event_line_pid(news),
        .job_id = place(&at, news->job_id),
        .run_id = place(&at, run_id),
        .text = place(&at, text),
    };
    return headline;
}
