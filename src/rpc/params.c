#include "rpc/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/record-json.h"

struct check {
    const struct rpc_method *method;
    const struct rpc_param *param;
    const char *name; /* name of the parameter, or of an item in its list: `events[3]` */
    struct arena *arena;
    struct text *problem;
};

/* Appends the value, truncated and with control characters escaped. */
static void append_found(struct text *out, const json_t *found)
{
    char number[40];

    switch (json_typeof(found)) {
    case JSON_OBJECT: text_append_string(out, "an object"); break;
    case JSON_ARRAY: text_append_string(out, "a list"); break;
    case JSON_STRING:
        text_append_char(out, '"');
        text_append_visible(out, json_string_value(found), json_string_length(found),
                            RPC_FOUND_COLUMNS);
        text_append_char(out, '"');
        break;
    case JSON_INTEGER: text_printf(out, "%lld", (long long)json_integer_value(found)); break;
    case JSON_REAL: {
        size_t length =
            json_dumpb(found, number, sizeof(number), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        text_append(out, number, length <= sizeof(number) ? length : 0);
        break;
    }
    case JSON_TRUE: text_append_string(out, "true"); break;
    case JSON_FALSE: text_append_string(out, "false"); break;
    case JSON_NULL: text_append_string(out, "null"); break;
    }
}

static void begin_problem(const struct check *check)
{
    text_printf(check->problem, "%s: '%s' ", check->method->name, check->name);
}

/* "job.list: 'limit' is 0, but must be a whole number from 1 to 10000" */
static int reject_value(const struct check *check, const json_t *found)
{
    begin_problem(check);
    text_append_string(check->problem, "is ");
    if (json_is_string(found) && json_string_length(found) > RPC_FOUND_COLUMNS)
        text_printf(check->problem, "text of %zu bytes", json_string_length(found));
    else
        append_found(check->problem, found);
    text_append_string(check->problem, ", but must be ");
    rpc_param_describe(check->param, check->problem);
    /* RPC_NUMBER_MAX means "no limit", so the description does not mention it. */
    if (check->param->max == RPC_NUMBER_MAX && json_number_value(found) > RPC_NUMBER_MAX)
        text_printf(check->problem, ", at most %.0f", RPC_NUMBER_MAX);
    return -EINVAL;
}

/* `reason` begins with a verb: "is empty". */
static int reject_with_reason(const struct check *check, const json_t *found, const char *reason)
{
    begin_problem(check);
    append_found(check->problem, found);
    text_printf(check->problem, " %s", reason);
    return -EINVAL;
}

static int reject_length(const struct check *check, size_t length, size_t max_bytes)
{
    begin_problem(check);
    text_printf(check->problem, "has %zu bytes, but at most %zu are allowed", length, max_bytes);
    return -EINVAL;
}

/* ---- numbers and words ---- */

static bool is_in_range(const struct rpc_param *param, double value)
{
    return value <= param->max && (param->min_excluded ? value > param->min : value >= param->min);
}

static int decode_bool(const struct check *check, const json_t *json, struct rpc_value *ret)
{
    if (!json_is_boolean(json))
        return reject_value(check, json);
    ret->boolean = json_is_true(json);
    return 0;
}

static int decode_int(const struct check *check, const json_t *json, struct rpc_value *ret)
{
    if (!json_is_integer(json) || !is_in_range(check->param, (double)json_integer_value(json)))
        return reject_value(check, json);
    ret->integer = json_integer_value(json);
    return 0;
}

static int decode_real(const struct check *check, const json_t *json, struct rpc_value *ret)
{
    if (!json_is_number(json) || !is_in_range(check->param, json_number_value(json)))
        return reject_value(check, json);
    ret->real = json_number_value(json);
    return 0;
}

static bool has_nul(const json_t *json)
{
    return strlen(json_string_value(json)) != json_string_length(json);
}

static int decode_word(const struct check *check, const json_t *json, struct rpc_value *ret)
{
    const char *const *words = check->param->words;
    struct suggestion nearest = {0};

    for (int i = 0; json_is_string(json) && words[i]; i++) {
        if (strcmp(json_string_value(json), words[i]) == 0 && !has_nul(json)) {
            ret->word = i;
            return 0;
        }
        suggestion_consider(&nearest, json_string_value(json), json_string_length(json), words[i],
                            strlen(words[i]));
    }
    reject_value(check, json);
    if (nearest.name)
        text_printf(check->problem, "; did you mean '%s'?", nearest.name);
    return -EINVAL;
}

/* ---- texts ---- */

static bool has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        if (!size || utf8_is_control(character))
            return true;
        i += size;
    }
    return false;
}

static int decode_text(const struct check *check, const json_t *json, size_t max_bytes,
                       const char **ret)
{
    if (!json_is_string(json))
        return reject_value(check, json);

    const char *text = json_string_value(json), *reason;
    size_t length = json_string_length(json);
    if (length == 0)
        return reject_with_reason(check, json, "is empty");
    if (length > max_bytes)
        return reject_length(check, length, max_bytes);
    if (has_nul(json))
        return reject_with_reason(check, json, "contains a NUL");
    if (!check->param->allows_controls && has_control(text, length))
        return reject_with_reason(check, json, "contains a control character");
    if (check->param->check && check->param->check(text, &reason) < 0)
        return reject_with_reason(check, json, reason);
    *ret = arena_copy(check->arena, text, length);
    return *ret ? 0 : -ENOMEM;
}

static int decode_texts(struct check check, const json_t *json, struct text_list *ret)
{
    size_t count = json_array_size(json); /* 0 if it is not a list */
    char name[80];

    if (count == 0 || (double)count > check.param->max) {
        reject_value(&check, json);
        if (json_is_array(json))
            text_printf(check.problem, "; it has %zu", count);
        return -EINVAL;
    }
    struct text_list texts = {arena_alloc(check.arena, count * sizeof(char *)), count};
    if (!texts.items)
        return -ENOMEM;
    check.name = name;
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", check.param->name, i);
        int r = decode_text(&check, json_array_get(json, i), RPC_TEXT_MAX_BYTES, &texts.items[i]);
        if (r < 0)
            return r;
    }
    *ret = texts;
    return 0;
}

static int decode_tally(const struct check *check, json_t *json, struct tally_list *ret)
{
    size_t count = json_object_size(json); /* 0 if it is not an object */
    struct tally_list tally = {0};
    const char *name;
    json_t *number;

    if (!json_is_object(json) || (double)count > check->param->max) {
        reject_value(check, json);
        if (json_is_object(json))
            text_printf(check->problem, "; it has %zu", count);
        return -EINVAL;
    }
    tally.items = arena_alloc(check->arena, MAX(count, (size_t)1) * sizeof(*tally.items));
    if (!tally.items)
        return -ENOMEM;
    json_object_foreach (json, name, number) {
        size_t length = strlen(name);
        if (!length || length > RPC_NAME_MAX_BYTES || has_control(name, length))
            return reject_with_reason(check, json, "contains an invalid name");
        if (!json_is_number(number) || !(json_number_value(number) >= 0) ||
            json_number_value(number) > RPC_NUMBER_MAX)
            return reject_with_reason(check, json,
                                      "contains a value that is not a number of at least 0");
        struct tally *item = &tally.items[tally.count++];
        *item = (struct tally){.name = arena_copy(check->arena, name, length),
                               .value = json_number_value(number)};
        if (!item->name)
            return -ENOMEM;
    }
    *ret = tally;
    return 0;
}

static int decode_record(const struct check *check, const json_t *json, void *into)
{
    struct decode_error error;
    _cleanup_free_ char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return -ENOMEM;

    size_t length = strlen(text);
    if (length > RPC_RECORD_MAX_BYTES)
        return reject_length(check, length, RPC_RECORD_MAX_BYTES);
    int r = record_decode(check->param->record, text, length, check->arena, into, &error);
    if (r != -EBADMSG)
        return r;
    begin_problem(check);
    text_printf(check->problem, "is not valid: %s", error.text);
    return -EINVAL;
}

static int decode_records(struct check check, const json_t *json, struct any_list *ret)
{
    const size_t count = json_array_size(json), size = check.param->record->size;
    char name[80];

    if (!json_is_array(json) || (double)count > check.param->max) {
        reject_value(&check, json);
        if (json_is_array(json))
            text_printf(check.problem, "; it has %zu", count);
        return -EINVAL;
    }
    struct any_list records = {arena_alloc(check.arena, MAX(count, (size_t)1) * size), count};
    if (!records.items)
        return -ENOMEM;
    check.name = name;
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", check.param->name, i);
        int r = decode_record(&check, json_array_get(json, i), (char *)records.items + i * size);
        if (r < 0)
            return r;
    }
    *ret = records;
    return 0;
}

/* ---- a method's parameters ---- */

static int decode_value(const struct check *check, json_t *json, struct rpc_value *ret)
{
    switch (check->param->type) {
    case RPC_BOOL: return decode_bool(check, json, ret);
    case RPC_INT: return decode_int(check, json, ret);
    case RPC_REAL: return decode_real(check, json, ret);
    case RPC_TEXT: return decode_text(check, json, (size_t)check->param->max, &ret->text);
    case RPC_WORD: return decode_word(check, json, ret);
    case RPC_TEXTS: return decode_texts(*check, json, &ret->texts);
    case RPC_TALLY: return decode_tally(check, json, &ret->tally);
    case RPC_RECORDS: return decode_records(*check, json, &ret->records);
    }
    return -EINVAL;
}

static int reject_unknown(const struct rpc_method *method, const char *name, struct text *problem)
{
    struct suggestion nearest = {0};

    for (size_t i = 0; i < method->param_count; i++)
        suggestion_consider(&nearest, name, strlen(name), method->params[i].name,
                            strlen(method->params[i].name));
    text_printf(problem, "%s: there is no parameter '", method->name);
    text_append_visible(problem, name, strlen(name), RPC_FOUND_COLUMNS);
    text_append_char(problem, '\'');
    if (nearest.name)
        text_printf(problem, "; did you mean '%s'?", nearest.name);
    return -EINVAL;
}

static const struct rpc_param *find_param(const struct rpc_method *method, const char *name)
{
    for (size_t i = 0; i < method->param_count; i++)
        if (strcmp(method->params[i].name, name) == 0)
            return &method->params[i];
    return NULL;
}

/* Sets the fallbacks of parameters that are not given, and rejects the request if a required one is
 * missing. */
static int set_fallbacks(const struct rpc_method *method, struct rpc_value *values,
                         struct text *problem)
{
    for (size_t i = 0; i < method->param_count; i++) {
        const struct rpc_param *param = &method->params[i];

        if (values[i].is_given)
            continue;
        if (param->is_required) {
            text_printf(problem, "%s: '%s' is missing: ", method->name, param->name);
            rpc_param_describe(param, problem);
            return -EINVAL;
        }
        if (param->fallback == 0)
            continue;
        values[i].is_given = true;
        if (param->type == RPC_INT)
            values[i].integer = (int64_t)param->fallback;
        else
            values[i].real = param->fallback;
    }
    return 0;
}

int rpc_params_decode(const struct rpc_method *method, json_t *params, struct arena *arena,
                      struct rpc_value *values, struct text *problem)
{
    const char *name;
    json_t *json;

    json_object_foreach (params, name, json) {
        const struct rpc_param *param = find_param(method, name);
        if (!param)
            return reject_unknown(method, name, problem);
        if (json_is_null(json))
            continue;

        const struct check check = {method, param, param->name, arena, problem};
        struct rpc_value *value = &values[param - method->params];
        int r = decode_value(&check, json, value);
        if (r < 0)
            return r;
        value->is_given = true;
    }
    return set_fallbacks(method, values, problem);
}
