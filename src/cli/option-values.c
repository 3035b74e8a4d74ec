#include "cli/option-values.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/time-spec.h"
#include "cli/command-type.h"

int option_invalid(const struct command *command, const char *name, const char *value,
                   const char *problem)
{
    return command_misused(command, "--%s: '%s' %s", name, SHOWN(value), problem);
}

int option_time(const struct command *command, const struct arguments *arguments, const char *name,
                double now, double *ret)
{
    const char *text = arguments_value(arguments, name);

    if (!text)
        return 0;
    switch (time_spec_parse(text, now, ret)) {
    case 0: return 0;
    case -ERANGE: return option_invalid(command, name, text, "is out of range (1970 to 9999)");
    default:
        return option_invalid(
            command, name, text,
            "is not a time; write 14:00, \"2 hours ago\", yesterday or 2026-11-16");
    }
}

int option_span(const struct command *command, const struct arguments *arguments, double now,
                double *ret_since, double *ret_until)
{
    const char *since = arguments_value(arguments, "since");
    const char *until = arguments_value(arguments, "until");

    int status = option_time(command, arguments, "since", now, ret_since);
    if (status == 0)
        status = option_time(command, arguments, "until", now, ret_until);
    if (status || !since)
        return status;
    if (until && *ret_since > *ret_until)
        return option_invalid(command, "until", until, "is before --since; swap them");
    return *ret_since > now ? option_invalid(command, "since", since, "is in the future") : 0;
}

int option_type(const struct command *command, const struct command_context *context,
                const struct arguments *arguments, char into[static JOB_ID_MAX_BYTES + 1],
                const char **ret)
{
    const char *text = arguments_value(arguments, "type"), *reason;

    if (!text)
        return 0;
    if (job_id_check(text, &reason) < 0)
        return option_invalid(command, "type", text, reason);
    if (command_type_redact(context, text, into) < 0)
        return EXIT_USAGE;
    *ret = into;
    return 0;
}

int option_limit(const struct command *command, const struct arguments *arguments, size_t *ret)
{
    const char *text = arguments_value(arguments, "limit");
    int64_t limit;

    if (!text)
        return 0;
    if (number_parse_int(text, &limit) < 0 || limit < 1 || limit > OPTION_LIMIT_MAX)
        return option_invalid(command, "limit", text, "is not a number from 1 to 1000000");
    *ret = (size_t)limit;
    return 0;
}

/* Another spelling of a value, or the text itself. */
static const char *find_canonical(const char *text)
{
    static const struct {
        const char *spelling, *name;
    } synonyms[] = {{"failed", "failure"}, {"succeeded", "success"}};

    for (size_t i = 0; i < ARRAY_SIZE(synonyms); i++)
        if (strcmp(synonyms[i].spelling, text) == 0)
            return synonyms[i].name;
    return text;
}

static int read_enum(const struct command *command, const char *name, const char *text,
                     const struct field *field, int *ret)
{
    _cleanup_text_ struct text problem = {0};

    text_append_string(&problem, "is not one of");
    for (int i = 1; i < (int)field->name_count; i++) {
        if (strcmp(field->names[i], find_canonical(text)) == 0) {
            *ret = i;
            return 0;
        }
        text_printf(&problem, "%s %s", i > 1 ? "," : "", field->names[i]);
    }
    return option_invalid(command, name, text, text_string(&problem));
}

int option_enum(const struct command *command, const struct arguments *arguments, const char *name,
                const struct field *field, int *ret)
{
    const char *text = arguments_value(arguments, name);
    return text ? read_enum(command, name, text, field, ret) : 0;
}

int option_enum_set(const struct command *command, const struct arguments *arguments,
                    const char *name, const struct field *field, unsigned *ret)
{
    size_t position = 0;
    unsigned set = 0;
    int status = 0, value;

    for (const char *text;
         status == 0 && (text = arguments_next_value(arguments, name, &position));) {
        status = read_enum(command, name, text, field, &value);
        if (status == 0)
            set |= 1U << (unsigned)value;
    }
    if (status == 0 && set)
        *ret = set;
    return status;
}
