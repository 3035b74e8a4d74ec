#include "rpc/method.h"

#include <errno.h>
#include <string.h>

#include "base/json-writer.h"
#include "base/text.h"
#include "base/uuid.h"

const struct rpc_method *rpc_methods_find(const struct rpc_methods *methods, const char *name)
{
    for (size_t i = 0; i < methods->count; i++)
        if (strcmp(methods->items[i]->name, name) == 0)
            return methods->items[i];
    return NULL;
}

int rpc_check_uuid(const char *text, const char **ret_reason)
{
    if (uuid_looks_like(text) && !strpbrk(text, "ABCDEF"))
        return 0;
    *ret_reason = "is not a UUID in lower case";
    return -EINVAL;
}

const struct field *rpc_alias_field(const struct rpc_alias *alias, const struct record *record,
                                    size_t *ret_offset)
{
    const struct field *outer = alias->outer ? record_find(record, alias->outer) : NULL;
    const struct field *field = record_find(outer ? outer->record : record, alias->field);

    *ret_offset = (outer ? outer->offset : 0) + field->offset;
    return field;
}

struct rpc_param rpc_param_of_field(const struct field *field)
{
    struct rpc_param param = {
        .name = field->name,
        .meaning = field->meaning,
        .max = RPC_NUMBER_MAX,
        .holds_command = field->holds_command,
    };

    switch (field->type) {
    case FIELD_INT: param.type = RPC_INT; break;
    case FIELD_REAL:
        param.type = RPC_REAL;
        if (field->unit == UNIT_MB)
            param.max = RPC_MEMORY_MAX_MB;
        break;
    case FIELD_ENUM:
        param.type = RPC_ENUM;
        param.names = field->names;
        param.min = 1; /* 0 is unknown */
        param.max = (double)field->name_count - 1;
        break;
    case FIELD_TALLY:
        param.type = RPC_TALLY;
        param.max = RPC_TALLY_MAX;
        break;
    case FIELD_RECORD:
        param.type = RPC_RECORD;
        param.record = field->record;
        break;
    default: /* other types are texts: a test checks that no other one is reported */
        param.type = RPC_TEXT;
        param.max = RPC_NAME_MAX_BYTES;
        break;
    }
    return param;
}

/* ---- allowed values as text ---- */

static void append_number(struct text *out, double value)
{
    struct json_writer number = {.out = out};

    json_write_real(&number, value);
}

static void append_range(const struct rpc_param *param, struct text *out)
{
    if (param->max == RPC_TIME_MAX) {
        text_append_string(out, " of Unix seconds, up to the year 9999");
        return;
    }
    if (!param->min_excluded && param->max < RPC_NUMBER_MAX) {
        text_append_string(out, " from ");
        append_number(out, param->min);
        text_append_string(out, " to ");
        append_number(out, param->max);
        return;
    }
    text_append_string(out, param->min_excluded ? " more than " : ", ");
    append_number(out, param->min);
    text_append_string(out, param->min_excluded ? "" : " or more");
    if (param->max < RPC_NUMBER_MAX) {
        text_append_string(out, ", at most ");
        append_number(out, param->max);
    }
}

static void append_names(const struct rpc_param *param, struct text *out)
{
    const int first = (int)param->min;

    text_append_string(out, "one of ");
    for (int i = first; i <= (int)param->max; i++)
        text_printf(out, "%s%s", i > first ? ", " : "", param->names[i]);
}

void rpc_param_describe(const struct rpc_param *param, struct text *out)
{
    switch (param->type) {
    case RPC_BOOL: text_append_string(out, "true or false"); break;
    case RPC_INT:
        text_append_string(out, "a whole number");
        append_range(param, out);
        break;
    case RPC_REAL:
        text_append_string(out, "a number");
        append_range(param, out);
        break;
    case RPC_TEXT: text_printf(out, "text of at most %.0f bytes", param->max); break;
    case RPC_ENUM: append_names(param, out); break;
    case RPC_ENUMS:
        text_append_string(out, "a list of 1 or more, each ");
        append_names(param, out);
        break;
    case RPC_TEXTS: text_printf(out, "a list of 1 to %.0f texts", param->max); break;
    case RPC_TALLY:
        text_printf(out, "an object of at most %.0f numbers, 0 or more, by name", param->max);
        break;
    case RPC_RECORD: text_printf(out, "an object: %s", param->record->name); break;
    case RPC_RECORDS:
        text_printf(out, "a list of at most %.0f %s", param->max, param->record->name);
        break;
    }
}

/* ---- documentation ---- */

/* `older_name`: a second name of the parameter, or NULL. */
static void append_param(const struct rpc_param *param, const char *older_name, struct text *out)
{
    text_printf(out, "| `%s` | ", param->name);
    rpc_param_describe(param, out);
    if (param->fallback != 0) {
        text_append_string(out, "; default ");
        append_number(out, param->fallback);
    }
    text_printf(out, " | %s | %s", param->is_required ? "yes" : "", param->meaning);
    if (older_name)
        text_printf(out, "; older name: `%s`", older_name);
    text_append_string(out, " |\n");
}

/* Appends one row for all entries of the name. Returns the last one. */
static const struct rpc_alias *append_alias(const struct rpc_alias *alias,
                                            const struct record *record, struct text *out)
{
    const char *name = alias->name;
    size_t offset;
    struct rpc_param param = rpc_param_of_field(rpc_alias_field(alias, record, &offset));

    text_printf(out, "| `%s` | ", name);
    rpc_param_describe(&param, out);
    text_append_string(out, " |  | older name of");
    for (bool is_first = true;; alias++, is_first = false) {
        text_printf(out, "%s `%s%s%s`", is_first ? "" : ",", alias->outer ? alias->outer : "",
                    alias->outer ? "." : "", alias->field);
        if (!alias[1].name || strcmp(alias[1].name, name) != 0)
            break;
    }
    text_append_string(out, " |\n");
    return alias;
}

static void append_method(const struct rpc_method *method, struct text *out)
{
    const struct record *record = method->record;

    text_printf(out, "\n### `%s`\n\n%s\n\n", method->name, method->summary);
    if (method->param_count)
        text_append_string(out, "| parameter | allowed | required | meaning |\n"
                                "| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < method->param_count; i++)
        append_param(&method->params[i], NULL, out);
    for (size_t i = 0; record && i < record->field_count; i++) {
        struct rpc_param param = rpc_param_of_field(&record->fields[i]);
        if (record->fields[i].is_reported)
            append_param(&param, record->fields[i].alias, out);
    }
    for (const struct rpc_alias *alias = method->aliases; alias && alias->name; alias++)
        alias = append_alias(alias, record, out);
    text_printf(out, "%sResult: %s.\n", method->param_count ? "\n" : "", method->result);
}

void rpc_methods_markdown(const struct rpc_methods *methods, struct text *out)
{
    for (size_t i = 0; i < methods->count; i++)
        append_method(methods->items[i], out);
}
