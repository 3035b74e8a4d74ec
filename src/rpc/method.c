#include "rpc/method.h"

#include <string.h>

#include "base/json-writer.h"
#include "base/text.h"

int rpc_method_find(const char *name)
{
    for (int i = 0; i < RPC_METHOD_COUNT; i++)
        if (strcmp(rpc_methods[i].name, name) == 0)
            return i;
    return -1;
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

static void append_words(const struct rpc_param *param, struct text *out)
{
    text_append_string(out, "one of ");
    for (size_t i = 0; param->words[i]; i++)
        text_printf(out, "%s%s", i ? ", " : "", param->words[i]);
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
    case RPC_WORD: append_words(param, out); break;
    case RPC_TEXTS: text_printf(out, "a list of 1 to %.0f texts", param->max); break;
    case RPC_TALLY:
        text_printf(out, "an object of at most %.0f numbers, 0 or more, by name", param->max);
        break;
    case RPC_RECORDS:
        text_printf(out, "a list of at most %.0f %s", param->max, param->record->name);
        break;
    }
}

/* ---- documentation ---- */

static void append_param(const struct rpc_param *param, struct text *out)
{
    text_printf(out, "| `%s` | ", param->name);
    rpc_param_describe(param, out);
    if (param->fallback != 0) {
        text_append_string(out, "; default ");
        append_number(out, param->fallback);
    }
    text_printf(out, " | %s | %s |\n", param->is_required ? "yes" : "", param->meaning);
}

void rpc_methods_markdown(struct text *out)
{
    for (size_t i = 0; i < RPC_METHOD_COUNT; i++) {
        const struct rpc_method *method = &rpc_methods[i];

        text_printf(out, "\n### `%s`\n\n%s\n\n", method->name, method->summary);
        if (method->param_count)
            text_append_string(out, "| parameter | allowed | required | meaning |\n"
                                    "| --- | --- | --- | --- |\n");
        for (size_t k = 0; k < method->param_count; k++)
            append_param(&method->params[k], out);
        text_printf(out, "%sResult: %s.\n", method->param_count ? "\n" : "", method->result);
    }
}
