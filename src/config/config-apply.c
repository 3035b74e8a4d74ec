/* Applies a tree of nodes to a configuration, using the schema. It reports each error and
 * continues, so that one run finds all errors of a file. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "config/config-load.h"

/* Width of a value in an error message. */
#define VALUE_COLUMNS 60

static void add_problem(struct config_apply *apply, const struct config_node *node,
                        const char *path, const struct text *problem)
{
    _cleanup_text_ struct text message = {0};

    if (path)
        text_printf(&message, "%s: ", path);
    text_append(&message, text_string(problem), problem->length);
    if (text_error(problem) < 0 || text_error(&message) < 0)
        apply->error = -ENOMEM;
    else
        config_errors_add(apply->errors, apply->file, node->line, node->column,
                          text_string(&message));
}

void config_report(struct config_apply *apply, const struct config_node *node, const char *path,
                   const char *format, ...)
{
    _cleanup_text_ struct text problem = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&problem, format, arguments);
    va_end(arguments);
    add_problem(apply, node, path, &problem);
}

static void append_value(struct text *out, const struct config_node *node)
{
    if (node->kind != NODE_SCALAR) {
        text_append_string(out, node->kind == NODE_LIST ? "a list" : "a mapping");
        return;
    }
    text_append_char(out, '\'');
    text_append_visible(out, node->text, node->length, VALUE_COLUMNS);
    text_append_char(out, '\'');
}

void config_report_value(struct config_apply *apply, const struct config_node *node,
                         const char *path, const char *format, ...)
{
    _cleanup_text_ struct text problem = {0};
    va_list arguments;

    append_value(&problem, node);
    text_append_char(&problem, ' ');
    va_start(arguments, format);
    text_vprintf(&problem, format, arguments);
    va_end(arguments);
    add_problem(apply, node, path, &problem);
}

/* Reports an unsupported YAML feature of the node. Returns whether there was one. */
static bool report_unsupported(struct config_apply *apply, const struct config_node *node,
                               const char *path)
{
    if (node->unsupported)
        config_report(apply, node, path, "%s are not allowed", node->unsupported);
    return node->unsupported != NULL;
}

bool config_apply_expect(struct config_apply *apply, const struct config_node *node,
                         enum config_node_kind kind, const char *path, const char *noun)
{
    if (report_unsupported(apply, node, path))
        return false;
    if (config_node_is_null(node))
        config_report(apply, node, path, "no value; expected %s", noun);
    else if (node->kind != kind)
        config_report_value(apply, node, path, "is not %s", noun);
    return node->kind == kind && !config_node_is_null(node);
}

/* Reports an invalid value of a key, with the allowed values. */
static void report_key_value(struct config_apply *apply, const struct config_key *key,
                             const struct config_node *node, const char *reason)
{
    _cleanup_text_ struct text allowed = {0};

    config_append_allowed(&allowed, key);
    if (text_error(&allowed) < 0)
        apply->error = -ENOMEM;
    else if (!reason)
        config_report(apply, node, key->path, "no value (allowed: %s)", text_string(&allowed));
    else
        config_report_value(apply, node, key->path, "%s (allowed: %s)", reason,
                            text_string(&allowed));
}

static void report_wrong_kind(struct config_apply *apply, const struct config_key *key,
                              const struct config_node *node)
{
    char reason[64];

    snprintf(reason, sizeof(reason), "is not %s", config_type_noun(key));
    report_key_value(apply, key, node, reason);
}

bool config_apply_words(struct config_apply *apply, const char *path, const char *noun,
                        const struct config_node *node, const char *(*check)(const char *word),
                        struct text_list *ret)
{
    struct text_list words = {.items = NULL};
    bool fine = true;

    for (const struct config_node *item = node->first; item; item = item->next)
        words.count++;
    if (words.count > CONFIG_WORDS_MAX) {
        config_report(apply, node, path, "%zu items (limit: %d)", words.count, CONFIG_WORDS_MAX);
        return false;
    }
    words.items = arena_alloc(&apply->config->arena, words.count * sizeof(*words.items));
    words.count = 0;

    for (const struct config_node *item = node->first; item && words.items; item = item->next) {
        if (!config_apply_expect(apply, item, NODE_SCALAR, path, noun)) {
            fine = false;
            continue;
        }
        const char *reason =
            item->length ? config_text_problem(item, CONFIG_WORD_MAX_BYTES) : "is empty";
        if (!reason && check)
            reason = check(item->text);
        if (reason) {
            config_report_value(apply, item, path, "%s", reason);
            fine = false;
            continue;
        }
        const char *word = arena_copy(&apply->config->arena, item->text, item->length);
        if (!word)
            apply->error = -ENOMEM;
        words.items[words.count++] = word;
    }
    if (!words.items)
        apply->error = -ENOMEM;
    if (apply->error == 0 && fine)
        *ret = words;
    return apply->error == 0 && fine;
}

static void apply_scalar(struct config_apply *apply, const struct config_key *key,
                         const struct config_node *node)
{
    _cleanup_text_ struct text problem = {0};
    int r = config_value_set(apply->config, key, node, &problem);

    if (r == -ENOMEM || text_error(&problem) < 0)
        apply->error = -ENOMEM;
    else if (r < 0)
        report_key_value(apply, key, node, text_string(&problem));
}

void config_apply_leaf(struct config_apply *apply, const struct config_key *key,
                       const struct config_node *node)
{
    bool is_list = key->type == CONFIG_WORDS || key->type == CONFIG_RULES;
    void *member = (char *)apply->config + key->offset;

    if (report_unsupported(apply, node, key->path))
        return;
    if (config_node_is_null(node) && !key->allows_empty)
        report_key_value(apply, key, node, NULL);
    else if (node->kind != (is_list ? NODE_LIST : NODE_SCALAR))
        report_wrong_kind(apply, key, node);
    else if (key->type == CONFIG_WORDS)
        config_apply_words(apply, key->path, "a word", node, NULL, member);
    else if (key->type == CONFIG_RULES)
        config_apply_rules(apply, key, node);
    else
        apply_scalar(apply, key, node);
}

static void report_unknown(struct config_apply *apply, struct config_section section,
                           const struct config_node *name)
{
    _cleanup_text_ struct text path = {0};
    _cleanup_text_ struct text meant = {0};

    text_append(&path, section.path, section.length);
    text_append_visible(&path, name->text, name->length, VALUE_COLUMNS);
    config_section_suggest(section, name->text, name->length, &meant);
    if (text_error(&path) < 0 || text_error(&meant) < 0)
        apply->error = -ENOMEM;
    else if (meant.length)
        config_report(apply, name, text_string(&path), "unknown key; did you mean '%s'?",
                      text_string(&meant));
    else
        config_report(apply, name, text_string(&path), "unknown key");
}

static void apply_mapping(struct config_apply *apply, struct config_section section,
                          const struct config_node *mapping);

static void apply_section(struct config_apply *apply, struct config_section section,
                          const struct config_node *node)
{
    char path[64];

    snprintf(path, sizeof(path), "%.*s", (int)section.length - 1, section.path);
    if (node->unsupported || !config_node_is_null(node)) {
        if (config_apply_expect(apply, node, NODE_MAPPING, path, "a section of keys"))
            apply_mapping(apply, section, node);
    }
}

static void apply_pair(struct config_apply *apply, struct config_section section,
                       const struct config_node *name, const struct config_node *value,
                       unsigned *first_lines)
{
    bool is_leaf;

    if (!config_apply_expect(apply, name, NODE_SCALAR, NULL, "a key"))
        return;
    const struct config_key *key = config_section_find(section, name->text, name->length, &is_leaf);
    if (!key) {
        report_unknown(apply, section, name);
        return;
    }

    size_t path_length = section.length + name->length;
    unsigned *first_line = &first_lines[key - config_keys];
    if (*first_line) {
        config_report(apply, name, NULL, "%.*s: duplicate key; first on line %u", (int)path_length,
                      key->path, *first_line);
        return;
    }
    *first_line = name->line;
    if (!is_leaf) {
        apply_section(apply, (struct config_section){key->path, path_length + 1}, value);
        return;
    }
    apply->config->origin_lines[key - config_keys] = name->line;
    apply->values[key - config_keys] = value;
    config_apply_leaf(apply, key, value);
}

static void apply_mapping(struct config_apply *apply, struct config_section section,
                          const struct config_node *mapping)
{
    unsigned first_lines[CONFIG_KEYS_MAX] = {0};

    for (const struct config_node *name = mapping->first; name; name = name->next->next)
        apply_pair(apply, section, name, name->next, first_lines);
}

/* The database and the log must not be the same file. */
static void check_paths_differ(struct config_apply *apply)
{
    const struct config *config = apply->config;

    if (!config->storage_path || !config->jsonl_path ||
        strcmp(config->storage_path, config->jsonl_path) != 0)
        return;
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].offset == offsetof(struct config, jsonl_path))
            config_report_value(apply, apply->values[i], config_keys[i].path,
                                "is also profiler.storage_path (allowed: another file)");
}

void config_apply_root(struct config_apply *apply, const struct config_node *root)
{
    if (!root->unsupported && config_node_is_null(root))
        return;
    if (config_apply_expect(apply, root, NODE_MAPPING, NULL, "a section of keys"))
        apply_mapping(apply, (struct config_section){"", 0}, root);
    check_paths_differ(apply);
}
