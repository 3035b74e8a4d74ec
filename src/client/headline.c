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

struct headline *headline_new(const struct news *news)
{
    const char *word = news_word(news), *run_id = news_run_id(news), *command = news_command(news);
    _cleanup_text_ struct text what = {0};

    news_format_what(news, &what);
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
        .timestamp = news_time(news),
        .event = place(&at, news->event),
        .word = place(&at, word),
        .tint = news_tint(news),
        .pid = news_pid(news),
        .job_id = place(&at, news->job_id),
        .run_id = place(&at, run_id),
        .text = place(&at, text),
    };
    return headline;
}
