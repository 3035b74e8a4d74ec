/* Prints the configuration in force, the changes between two configurations, and the schema. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/json-writer.h"
#include "base/macros.h"
#include "config/config-schema.h"
#include "config/config.h"

static const void *member_of(const struct config *config, const struct config_key *key)
{
    return (const char *)config + key->offset;
}

static const char *last_name(const char *path)
{
    return strrchr(path, '.') + 1;
}

/* Returns whether any YAML reader parses the unquoted text as the same text: no indicators, no
 * number, no word that is a boolean or null in some version of YAML. */
static bool is_plain(const char *text)
{
    static const char *const special[] = {"null", "true", "false", "yes", "no",
                                          "on",   "off",  "y",     "n"};
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-";

    if (!*text || strspn(text, safe) != strlen(text) || strchr("0123456789.-", *text))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(special); i++)
        if (strcasecmp(text, special[i]) == 0)
            return false;
    return true;
}

/* JSON quoting is valid YAML. */
static void append_yaml_text(struct text *out, const char *text)
{
    struct json_writer quoted = {.out = out};

    if (is_plain(text))
        text_append_string(out, text);
    else
        json_write_string(&quoted, text);
}

static void append_yaml_list(struct text *out, const struct text_list *list)
{
    text_append_char(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i)
            text_append_string(out, ", ");
        append_yaml_text(out, list->items[i]);
    }
    text_append_char(out, ']');
}

static const char *switch_name(int value)
{
    return value == SWITCH_AUTO ? "auto" : value == SWITCH_ON ? "true" : "false";
}

static void append_access(struct text *out, const struct access_config *access)
{
    switch (access->kind) {
    case ACCESS_OWNER: text_append_string(out, "owner"); break;
    case ACCESS_EVERYONE: text_append_string(out, "everyone"); break;
    case ACCESS_GROUP: text_printf(out, "group:%s", access->group); break;
    }
}

static void append_yaml_access(struct text *out, const struct access_config *access)
{
    _cleanup_text_ struct text word = {0};

    append_access(&word, access);
    append_yaml_text(out, text_string(&word));
    if (text_error(&word) < 0)
        out->error = word.error;
}

static void append_yaml_number(struct text *out, double value)
{
    if (real_is_known(value))
        config_append_number(out, value);
    else
        text_append_string(out, "auto");
}

static double int_as_real(int64_t value)
{
    return int_is_known(value) ? (double)value : REAL_UNKNOWN;
}

/* Appends the value after the key; rules follow on their own lines. */
static void append_yaml_value(struct text *out, const struct config_key *key, const void *member)
{
    if (key->type == CONFIG_RULES) {
        if (((const struct job_rule_list *)member)->count == 0)
            text_append_string(out, " []");
        return;
    }
    text_append_char(out, ' ');
    switch (key->type) {
    case CONFIG_BOOL: text_append_string(out, *(const bool *)member ? "true" : "false"); break;
    case CONFIG_SWITCH: text_append_string(out, switch_name(*(const int *)member)); break;
    case CONFIG_CHOICE: text_append_string(out, key->names[*(const int *)member]); break;
    case CONFIG_INT: append_yaml_number(out, int_as_real(*(const int64_t *)member)); break;
    case CONFIG_REAL: append_yaml_number(out, *(const double *)member); break;
    case CONFIG_PATH: append_yaml_text(out, *(const char *const *)member); break;
    case CONFIG_ACCESS: append_yaml_access(out, member); break;
    case CONFIG_WORDS: append_yaml_list(out, member); break;
    case CONFIG_RULES: break;
    }
}

static void append_yaml_rules(struct text *out, const struct job_rule_list *rules, size_t indent)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct job_rule *rule = &rules->items[i];

        text_append_repeated(out, ' ', indent);
        text_append_string(out, "- job_id: ");
        append_yaml_text(out, rule->job_id);
        text_append_char(out, '\n');
        text_append_repeated(out, ' ', indent + 2);
        text_printf(out, "%s: ", job_rule_kind_name(rule->kind));
        if (rule->kind == JOB_RULE_ENV)
            append_yaml_list(out, &rule->names);
        else
            append_yaml_text(out, rule->pattern);
        text_append_char(out, '\n');
    }
}

static void append_origin(struct text *out, const struct config *config,
                          const struct config_key *key)
{
    unsigned line = config->origin_lines[key - config_keys];

    if (line)
        text_printf(out, "%s:%u", config->file, line);
    else
        text_append_string(out, "default");
}

static void append_yaml_origin(struct text *out, const struct config *config,
                               const struct config_key *key)
{
    _cleanup_text_ struct text origin = {0};

    append_origin(&origin, config, key);
    text_append_string(out, "  # ");
    text_append_visible(out, text_string(&origin), origin.length, SIZE_MAX);
    text_append_char(out, '\n');
    if (text_error(&origin) < 0)
        out->error = origin.error;
}

/* Returns the name of the key's section number `depth`, from 0. */
static const char *section_name(const char *path, size_t depth, size_t *ret_length)
{
    while (depth--)
        path = strchr(path, '.') + 1;
    *ret_length = strcspn(path, ".");
    return path;
}

static void show_key(const struct config *config, const struct config_key *key, struct text *out)
{
    const void *member = member_of(config, key);
    size_t indent = 2 * config_section_depth(key->path);
    const char *name = last_name(key->path);

    text_append_repeated(out, ' ', indent);
    if (key->type == CONFIG_PATH && !*(const char *const *)member) {
        /* No value means "derived from the state directory", so this line is a comment. */
        text_printf(out, "# %s: %s  # default\n", name, key->fallback_note);
        return;
    }
    text_printf(out, "%s:", name);
    append_yaml_value(out, key, member);
    append_yaml_origin(out, config, key);
    if (key->type == CONFIG_RULES)
        append_yaml_rules(out, member, indent + 2);
}

void config_show(const struct config *config, struct text *out)
{
    const char *previous = "";

    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        size_t depth = config_section_depth(key->path);

        for (size_t d = config_shared_sections(previous, key->path); d < depth; d++) {
            size_t length;
            const char *name = section_name(key->path, d, &length);
            text_append_repeated(out, ' ', 2 * d);
            text_printf(out, "%.*s:\n", (int)length, name);
        }
        show_key(config, key, out);
        previous = key->path;
    }
}

static void write_texts(struct json_writer *json, const struct text_list *list)
{
    json_write_begin_array(json);
    for (size_t i = 0; i < list->count; i++)
        json_write_string(json, list->items[i]);
    json_write_end_array(json);
}

static void write_rules(struct json_writer *json, const struct job_rule_list *rules)
{
    json_write_begin_array(json);
    for (size_t i = 0; i < rules->count; i++) {
        const struct job_rule *rule = &rules->items[i];

        json_write_begin_object(json);
        json_write_key(json, "job_id");
        json_write_string(json, rule->job_id);
        json_write_key(json, job_rule_kind_name(rule->kind));
        if (rule->kind == JOB_RULE_ENV)
            write_texts(json, &rule->names);
        else
            json_write_string(json, rule->pattern);
        json_write_end_object(json);
    }
    json_write_end_array(json);
}

static void write_access(struct json_writer *json, const struct access_config *access)
{
    _cleanup_text_ struct text word = {0};

    append_access(&word, access);
    json_write_string(json, text_string(&word));
    if (text_error(&word) < 0)
        json->out->error = word.error;
}

static void write_number(struct json_writer *json, double value)
{
    if (real_is_known(value))
        json_write_real(json, value);
    else
        json_write_string(json, "auto");
}

static void write_switch(struct json_writer *json, int value)
{
    if (value == SWITCH_AUTO)
        json_write_string(json, "auto");
    else
        json_write_bool(json, value == SWITCH_ON);
}

static void write_value(struct json_writer *json, const struct config_key *key, const void *member)
{
    switch (key->type) {
    case CONFIG_BOOL: json_write_bool(json, *(const bool *)member); break;
    case CONFIG_SWITCH: write_switch(json, *(const int *)member); break;
    case CONFIG_CHOICE: json_write_string(json, key->names[*(const int *)member]); break;
    case CONFIG_INT: write_number(json, int_as_real(*(const int64_t *)member)); break;
    case CONFIG_REAL: write_number(json, *(const double *)member); break;
    case CONFIG_PATH: json_write_string(json, *(const char *const *)member); break;
    case CONFIG_ACCESS: write_access(json, member); break;
    case CONFIG_WORDS: write_texts(json, member); break;
    case CONFIG_RULES: write_rules(json, member); break;
    }
}

static void write_leaf(struct json_writer *json, const struct config *config,
                       const struct config_key *key)
{
    _cleanup_text_ struct text origin = {0};

    append_origin(&origin, config, key);
    json_write_key(json, last_name(key->path));
    json_write_begin_object(json);
    json_write_key(json, "value");
    write_value(json, key, member_of(config, key));
    json_write_key(json, "origin");
    json_write_string(json, text_string(&origin));
    json_write_end_object(json);
    if (text_error(&origin) < 0)
        json->out->error = origin.error;
}

static void open_section(struct json_writer *json, const char *path, size_t depth)
{
    char name[64];
    size_t length;
    const char *start = section_name(path, depth, &length);

    snprintf(name, sizeof(name), "%.*s", (int)length, start);
    json_write_key(json, name);
    json_write_begin_object(json);
}

void config_show_json(const struct config *config, struct text *out)
{
    struct json_writer json = {.out = out};
    size_t depth = 0;
    const char *previous = "";

    json_write_begin_object(&json);
    for (size_t i = 0; i < config_key_count; i++) {
        const char *path = config_keys[i].path;

        for (size_t shared = config_shared_sections(previous, path); depth > shared; depth--)
            json_write_end_object(&json);
        for (; depth < config_section_depth(path); depth++)
            open_section(&json, path, depth);
        write_leaf(&json, config, &config_keys[i]);
        previous = path;
    }
    for (; depth; depth--)
        json_write_end_object(&json);
    json_write_end_object(&json);
}

void config_schema_markdown(struct text *out)
{
    text_append_string(out, "| key | default | allowed | reload | meaning |\n"
                            "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        text_printf(out, "| `%s` | ", key->path);
        if (key->fallback_note)
            text_append_string(out, key->fallback_note);
        else
            text_printf(out, "`%s`", key->fallback);
        text_append_string(out, " | ");
        config_append_allowed(out, key);
        text_printf(out, " | %s | %s |\n", key->needs_restart ? "restart" : "", key->meaning);
    }
}

void config_restart_keys_page(struct text *out)
{
    const char *separator = "";

    for (size_t i = 0; i < config_key_count; i++) {
        if (!config_keys[i].needs_restart)
            continue;
        text_printf(out, "%s*%s*", separator, config_keys[i].path);
        separator = ", ";
    }
    text_append_char(out, '\n');
}

/* ---- differences ---- */

static void append_value(struct text *out, const struct config *config,
                         const struct config_key *key)
{
    append_yaml_value(out, key, member_of(config, key));
    if (key->type == CONFIG_RULES)
        append_yaml_rules(out, member_of(config, key), 0);
}

/* Skips the blank between the key and the value. */
static const char *value_text(const struct text *value)
{
    const char *text = text_string(value);
    return *text == ' ' ? text + 1 : text;
}

int config_compare(const struct config *from, const struct config *to, config_change_fn on_change,
                   void *context)
{
    _cleanup_text_ struct text before = {0}, after = {0};

    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        text_reset(&before);
        text_reset(&after);
        append_value(&before, from, key);
        append_value(&after, to, key);
        if (text_error(&before) < 0 || text_error(&after) < 0)
            return -ENOMEM;
        if (strcmp(text_string(&before), text_string(&after)) != 0)
            on_change(context, &(struct config_change){.key = key->path,
                                                       .from = value_text(&before),
                                                       .to = value_text(&after),
                                                       .needs_restart = key->needs_restart});
    }
    return 0;
}
