#include "cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/charset.h"
#include "base/log.h"
#include "model/record-json.h"

struct report_style output_style(size_t columns_elsewhere)
{
    const char *no_color = getenv("NO_COLOR");
    struct winsize size;

    if (!isatty(STDOUT_FILENO))
        return (struct report_style){.columns = columns_elsewhere, .is_ascii = !charset_is_utf8()};
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return (struct report_style){.columns = is_known ? size.ws_col : columns_elsewhere,
                                 .with_colour = !(no_color && *no_color),
                                 .is_ascii = !charset_is_utf8()};
}

void output_adapt(struct text *text)
{
    struct text ascii = {0};

    if (text_error(text) < 0 || charset_is_utf8())
        return;
    ascii_append(&ascii, text_string(text), text->length);
    text_done(text);
    *text = ascii;
}

static int output_bytes(const struct command *command, const struct text *out)
{
    if (text_error(out) < 0) {
        log_error("%s: %s", command->name, strerror(-text_error(out)));
        return 1;
    }
    fwrite(text_string(out), 1, out->length, stdout);
    return finish_output(command);
}

int output_text(const struct command *command, const struct text *out)
{
    _cleanup_text_ struct text ascii = {0};

    if (text_error(out) < 0 || charset_is_utf8())
        return output_bytes(command, out);
    ascii_append(&ascii, text_string(out), out->length);
    return output_bytes(command, &ascii);
}

static int output_value(const struct command *command, const struct field *field, const void *value)
{
    _cleanup_text_ struct text out = {0};
    struct json_writer json = {.out = &out};

    field_encode(field, value, &json);
    text_append_char(&out, '\n');
    return output_bytes(command, &out);
}

int output_json(const struct command *command, const struct record *record, const void *object)
{
    const struct field field = {.type = FIELD_RECORD, .record = record};
    return output_value(command, &field, object);
}

int output_json_list(const struct command *command, const struct record *record, const void *list)
{
    const struct field field = {.type = FIELD_RECORDS, .record = record};
    return output_value(command, &field, list);
}
