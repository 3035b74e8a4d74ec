#include "rpc/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/record-json.h"
#include "model/redact.h"

struct check {
    const struct rpc_method *method;
    const struct rpc_param *param;
    const char *name; /* name of the parameter, or of an item in its list: `events[3]` */
    struct arena *arena;
    struct text *problem;
};

/* An error names unknown parameters up to this length, and counts the others. */
#define UNKNOWN_NAMED_BYTES 300
/* Width of their names: more than any parameter has. */
#define UNKNOWN_NAME_COLUMNS 24

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

/* "daemon.monitor.stream: 'events' has 0 items, but must be a list of 1 to 32 texts" */
static int reject_count(const struct check *check, size_t count)
{
    begin_problem(check);
    text_printf(check->problem, "has %zu item%s, but must be ", count, count == 1 ? "" : "s");
    rpc_param_describe(check->param, check->problem);
    return -EINVAL;
}

/* ---- numbers and names ---- */

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

static int decode_enum(const struct check *check, const json_t *json, struct rpc_value *ret)
{
    const struct rpc_param *param = check->param;
    struct suggestion nearest = {0};

    for (int i = (int)param->min; json_is_string(json) && i <= (int)param->max; i++) {
        const char *name = param->names[i];
        if (strcmp(json_string_value(json), name) == 0 && !has_nul(json)) {
            ret->enumerator = i;
            return 0;
        }
        suggestion_consider(&nearest, json_string_value(json), json_string_length(json), name,
                            strlen(name));
    }
    reject_value(check, json);
    if (nearest.name)
        text_printf(check->problem, "; did you mean '%s'?", nearest.name);
    return -EINVAL;
}

static int decode_enums(struct check check, const json_t *json, unsigned *ret)
{
    struct rpc_param item = *check.param;
    unsigned set = 0;
    char name[80];

    if (!json_is_array(json))
        return reject_value(&check, json);
    if (json_array_size(json) == 0)
        return reject_count(&check, 0);
    item.type = RPC_ENUM;
    check.param = &item;
    check.name = name;
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct rpc_value value;
        snprintf(name, sizeof(name), "%s[%zu]", item.name, i);
        int r = decode_enum(&check, json_array_get(json, i), &value);
        if (r < 0)
            return r;
        set |= 1U << (unsigned)value.enumerator;
    }
    *ret = set;
    return 0;
}

/* ---- texts and lists ---- */

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
    const size_t count = json_array_size(json);
    char name[80];

    if (!json_is_array(json))
        return reject_value(&check, json);
    if (count == 0 || (double)count > check.param->max)
        return reject_count(&check, count);
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

/* "job.finish: 'syscall_counts.read' is -1, but must be a number, 0 or more". `number` is NULL if
 * the name is the problem. */
static int reject_entry(const struct check *check, const char *name, const char *reason,
                        const json_t *number)
{
    text_printf(check->problem, "%s: '%s.", check->method->name, check->name);
    text_append_visible(check->problem, name, strlen(name), RPC_FOUND_COLUMNS);
    text_printf(check->problem, "' %s", reason);
    if (!number)
        return -EINVAL;
    append_found(check->problem, number);
    text_append_string(check->problem, ", but must be a number, 0 or more");
    return -EINVAL;
}

static int decode_tally(const struct check *check, json_t *json, struct tally_list *ret)
{
    const size_t count = json_object_size(json);
    struct tally_list tally = {0};
    const char *name;
    json_t *number;

    if (!json_is_object(json))
        return reject_value(check, json);
    if ((double)count > check->param->max)
        return reject_count(check, count);
    tally.items = arena_alloc(check->arena, MAX(count, (size_t)1) * sizeof(*tally.items));
    if (!tally.items)
        return -ENOMEM;
    json_object_foreach (json, name, number) {
        size_t length = strlen(name);
        if (!length || length > RPC_NAME_MAX_BYTES || has_control(name, length))
            return reject_entry(check, name, "has an invalid name", NULL);
        if (!json_is_number(number) || !(json_number_value(number) >= 0) ||
            json_number_value(number) > RPC_NUMBER_MAX)
            return reject_entry(check, name, "is ", number);
        struct tally *item = &tally.items[tally.count++];
        *item = (struct tally){.name = arena_copy(check->arena, name, length),
                               .value = json_number_value(number)};
        if (!item->name)
            return -ENOMEM;
    }
    *ret = tally;
    return 0;
}

/* ---- unknown names ---- */

static const struct rpc_param *find_param(const struct rpc_method *method, const char *name)
{
    for (size_t i = 0; i < method->param_count; i++)
        if (strcmp(method->params[i].name, name) == 0)
            return &method->params[i];
    return NULL;
}

static bool is_param(const struct rpc_method *method, const char *name)
{
    const struct field *field = method->record ? record_find(method->record, name) : NULL;

    if (find_param(method, name) || (field && field->is_reported))
        return true;
    for (const struct rpc_alias *alias = method->aliases; alias && alias->name; alias++)
        if (strcmp(alias->name, name) == 0)
            return true;
    return false;
}

/* Whether an object can have the member: the parameter of type RPC_RECORD, or without a parameter
 * the `params` of the request. */
static bool is_known(const struct check *check, const char *name)
{
    return check->param ? record_find(check->param->record, name) != NULL
                        : is_param(check->method, name);
}

static void suggest_name(const struct check *check, const char *name)
{
    const struct rpc_method *method = check->method;
    const struct record *record = check->param ? check->param->record : method->record;
    struct suggestion nearest = {0};

    for (size_t i = 0; !check->param && i < method->param_count; i++)
        suggestion_consider(&nearest, name, strlen(name), method->params[i].name,
                            strlen(method->params[i].name));
    for (size_t i = 0; record && i < record->field_count; i++)
        if (check->param || record->fields[i].is_reported)
            suggestion_consider(&nearest, name, strlen(name), record->fields[i].name,
                                strlen(record->fields[i].name));
    if (nearest.name)
        text_printf(check->problem, "; did you mean '%s'?", nearest.name);
}

/* Rejects the object if it has unknown members (see is_known()), and names them, so that a client
 * of a newer version can omit them. */
static int reject_unknown(const struct check *check, json_t *object)
{
    size_t count = 0, unnamed = 0;
    const char *name, *separator = " ";
    json_t *json;

    json_object_foreach (object, name, json)
        count += !is_known(check, name);
    if (count == 0)
        return 0;
    if (check->param)
        text_printf(check->problem, "%s: '%s' has no member", check->method->name, check->name);
    else
        text_printf(check->problem, "%s: there %s no parameter", check->method->name,
                    count == 1 ? "is" : "are");
    if (count > 1)
        text_append_char(check->problem, 's');
    json_object_foreach (object, name, json) {
        if (is_known(check, name))
            continue;
        if (check->problem->length > UNKNOWN_NAMED_BYTES) {
            unnamed++;
            continue;
        }
        text_printf(check->problem, "%s'", separator);
        text_append_visible(check->problem, name, strlen(name), UNKNOWN_NAME_COLUMNS);
        text_append_char(check->problem, '\'');
        separator = ", ";
        if (count == 1)
            suggest_name(check, name);
    }
    if (unnamed)
        text_printf(check->problem, " and %zu more", unnamed);
    return -EINVAL;
}

/* ---- records ---- */

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

    if (!json_is_array(json))
        return reject_value(&check, json);
    if ((double)count > check.param->max)
        return reject_count(&check, count);
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
    case RPC_ENUM: return decode_enum(check, json, ret);
    case RPC_ENUMS: return decode_enums(*check, json, &ret->enumerators);
    case RPC_TEXTS: return decode_texts(*check, json, &ret->texts);
    case RPC_TALLY: return decode_tally(check, json, &ret->tally);
    case RPC_RECORD:
        if (reject_unknown(check, json) < 0)
            return -EINVAL;
        ret->record = arena_alloc(check->arena, check->param->record->size);
        return ret->record ? decode_record(check, json, ret->record) : -ENOMEM;
    case RPC_RECORDS: return decode_records(*check, json, &ret->records);
    }
    return -EINVAL;
}

/* Decodes a parameter into a field of the method's record. */
static int decode_field(struct check check, const struct field *field, json_t *json, void *member)
{
    const struct rpc_param param = rpc_param_of_field(field);
    struct rpc_value value;

    check.param = &param;
    int r = decode_value(&check, json, &value);
    if (r < 0)
        return r;
    switch (param.type) {
    case RPC_INT: *(int64_t *)member = value.integer; break;
    case RPC_REAL: *(double *)member = value.real; break;
    case RPC_ENUM: *(int *)member = value.enumerator; break;
    case RPC_TALLY: *(struct tally_list *)member = value.tally; break;
    case RPC_RECORD: memcpy(member, value.record, param.record->size); break;
    default: *(const char **)member = value.text; break;
    }
    return 0;
}

/* Returns 1 if the name is one of the method's record, 0 if it is not, or a negative errno. */
static int decode_into_record(const struct check *check, json_t *json, void *object)
{
    const struct record *record = check->method->record;
    const struct field *field = record ? record_find(record, check->name) : NULL;
    const struct rpc_alias *alias = check->method->aliases;
    int r = 0, is_found = 0;

    if (field && field->is_reported) {
        if (!json_is_null(json))
            r = decode_field(*check, field, json, (char *)object + field->offset);
        return r < 0 ? r : 1;
    }
    for (; r == 0 && alias && alias->name; alias++) {
        size_t offset;
        if (strcmp(alias->name, check->name) != 0)
            continue;
        is_found = 1;
        field = rpc_alias_field(alias, record, &offset);
        if (!json_is_null(json))
            r = decode_field(*check, field, json, (char *)object + offset);
    }
    return r < 0 ? r : is_found;
}

static bool is_given(const json_t *json)
{
    return json && !json_is_null(json);
}

/* Rejects the request if it contains a figure under two names, because the members of a JSON object
 * have no order. Equal values are allowed, since the JSON of a run has both names of a figure. */
static int reject_ambiguous(const struct rpc_method *method, json_t *params, struct text *problem)
{
    const struct record *record = method->record;

    for (size_t i = 0; record && i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const json_t *value = json_object_get(params, field->name);
        const json_t *older = field->alias ? json_object_get(params, field->alias) : NULL;
        if (!field->is_reported || !is_given(value) || !is_given(older) || json_equal(value, older))
            continue;
        text_printf(problem, "%s: '%s' and its older name '%s' have different values", method->name,
                    field->name, field->alias);
        return -EINVAL;
    }
    for (const struct rpc_alias *alias = method->aliases; alias && alias->name; alias++) {
        const char *name = alias->outer ? alias->outer : alias->field;
        if (!is_given(json_object_get(params, name)) ||
            !is_given(json_object_get(params, alias->name)))
            continue;
        text_printf(problem, "%s: '%s' and the older '%s' cannot be given together", method->name,
                    name, alias->name);
        return -EINVAL;
    }
    return 0;
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

/* `check` has all but the parameter. */
static int decode_param(struct check check, const char *name, json_t *json,
                        struct rpc_request *request)
{
    const struct rpc_param *param = find_param(check.method, name);

    check.param = param;
    check.name = name;
    if (!param)
        return decode_into_record(&check, json, request->record);
    if (json_is_null(json))
        return 0;
    struct rpc_value *value = &request->values[param - check.method->params];
    int r = decode_value(&check, json, value);
    value->is_given = r == 0;
    return r;
}

int rpc_params_decode(const struct rpc_method *method, json_t *params, struct arena *arena,
                      struct rpc_request *request, struct text *problem)
{
    const struct check check = {.method = method, .arena = arena, .problem = problem};
    const char *name;
    json_t *json;

    int r = reject_unknown(&check, params);
    if (r == 0)
        r = reject_ambiguous(method, params, problem);
    if (r == 0 && method->record) {
        request->record = arena_alloc(arena, method->record->size);
        if (!request->record)
            return -ENOMEM;
        record_init(method->record, request->record);
    }
    json_object_foreach (params, name, json) {
        if (r < 0)
            break;
        r = decode_param(check, name, json, request);
    }
    return r < 0 ? r : set_fallbacks(method, request->values, problem);
}

/* ---- redaction ---- */

/* A result that is longer than allowed is cut. */
static int redact_param(const struct text_list *words, size_t max_bytes, struct arena *arena,
                        const char **text)
{
    int r = redact_replace(words, arena, text);
    size_t length = strlen(*text);

    if (r < 0 || length <= max_bytes)
        return r;
    char *cut = arena_alloc(arena, max_bytes + 1);
    if (!cut)
        return -ENOMEM;
    utf8_clean(cut, max_bytes + 1, *text, length);
    *text = cut;
    return 0;
}

static int redact_value(const struct text_list *words, const struct rpc_param *param,
                        struct arena *arena, struct rpc_value *value)
{
    int r = 0;

    if (param->type == RPC_TEXT && param->holds_command)
        return redact_param(words, (size_t)param->max, arena, &value->text);
    if (param->type == RPC_RECORD)
        return redact_record(words, param->record, arena, value->record);
    bool has_commands = param->type == RPC_TEXTS && param->holds_command;
    for (size_t i = 0; has_commands && i < value->texts.count && r == 0; i++)
        r = redact_param(words, RPC_TEXT_MAX_BYTES, arena, &value->texts.items[i]);
    for (size_t i = 0; param->type == RPC_RECORDS && i < value->records.count && r == 0; i++)
        r = redact_record(words, param->record, arena,
                          (char *)value->records.items + i * param->record->size);
    return r;
}

int rpc_request_redact(struct rpc_request *request, const struct text_list *words,
                       struct arena *arena)
{
    const struct rpc_method *method = request->method;
    int r = 0;

    if (!method) /* the request is invalid */
        return 0;
    for (size_t i = 0; i < method->param_count && r == 0; i++)
        if (request->values[i].is_given)
            r = redact_value(words, &method->params[i], arena, &request->values[i]);
    return r == 0 && request->record ? redact_record(words, method->record, arena, request->record)
                                     : r;
}
