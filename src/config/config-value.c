/* Parses one scalar strictly into one member: numbers, words and paths. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/number.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "config/config-load.h"

/* Longer than any name that group databases accept. */
#define GROUP_MAX_BYTES 64

static bool is_word(const struct config_node *node, const char *word)
{
    return node->length == strlen(word) && memcmp(node->text, word, node->length) == 0;
}

static int fail(struct text *problem, const char *reason)
{
    text_append_string(problem, reason);
    return -EINVAL;
}

bool config_node_is_null(const struct config_node *node)
{
    return node->kind == NODE_SCALAR && !node->quoted &&
           (node->length == 0 || is_word(node, "~") || is_word(node, "null") ||
            is_word(node, "Null") || is_word(node, "NULL"));
}

const char *config_text_problem(const struct config_node *node, size_t max_bytes)
{
    if (node->length > max_bytes)
        return "is too long";
    for (size_t i = 0; i < node->length;) {
        uint32_t character;
        size_t size = utf8_decode(node->text + i, node->length - i, &character);
        /* The last three are not control characters, but YAML accepts them only as escapes. */
        if (!size || utf8_is_control(character) || character == 0xFEFF || character == 0xFFFE ||
            character == 0xFFFF)
            return "contains a control character";
        i += size;
    }
    return NULL;
}

/* Returns `true` or `false` for a boolean of another language (`yes`, `off`), or NULL. */
static const char *meant_boolean(const struct config_node *node)
{
    static const char *const words[][2] = {
        {"true", "true"},   {"yes", "true"}, {"on", "true"},   {"y", "true"},  {"1", "true"},
        {"false", "false"}, {"no", "false"}, {"off", "false"}, {"n", "false"}, {"0", "false"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (node->length == strlen(words[i][0]) && strcasecmp(node->text, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static int fail_boolean(const struct config_node *node, const char *noun, struct text *problem)
{
    const char *meant = meant_boolean(node);

    text_printf(problem, "is not %s", noun);
    if (meant)
        text_printf(problem, "; did you mean '%s'?", meant);
    return -EINVAL;
}

static int fail_quoted(const struct config_key *key, struct text *problem)
{
    text_printf(problem, "is quoted, so it is text and not %s", config_type_noun(key));
    return -EINVAL;
}

static int set_bool(bool *member, const struct config_key *key, const struct config_node *node,
                    struct text *problem)
{
    if (node->quoted)
        return fail_quoted(key, problem);
    if (!is_word(node, "true") && !is_word(node, "false"))
        return fail_boolean(node, config_type_noun(key), problem);
    *member = is_word(node, "true");
    return 0;
}

static int set_switch(int *member, const struct config_key *key, const struct config_node *node,
                      struct text *problem)
{
    static const char *const names[] = {
        [SWITCH_AUTO] = "auto", [SWITCH_ON] = "true", [SWITCH_OFF] = "false"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (is_word(node, names[i])) {
            *member = (int)i;
            return 0;
        }
    return fail_boolean(node, config_type_noun(key), problem);
}

static int set_choice(int *member, const struct config_key *key, const struct config_node *node,
                      struct text *problem)
{
    struct suggestion nearest = {0};

    for (size_t i = 0; i < key->name_count; i++) {
        if (is_word(node, key->names[i])) {
            *member = (int)i;
            return 0;
        }
        suggestion_consider(&nearest, node->text, node->length, key->names[i],
                            strlen(key->names[i]));
    }
    text_printf(problem, "is not %s", config_type_noun(key));
    if (nearest.name)
        text_printf(problem, "; did you mean '%s'?", nearest.name);
    return -EINVAL;
}

static int fail_too_large(const struct config_key *key, struct text *problem)
{
    text_append_string(problem, "is too large; the limit is ");
    config_append_limit(problem, key);
    return -EINVAL;
}

static int check_range(const struct config_key *key, double value, struct text *problem)
{
    if (value < key->min || (key->min_excluded && value <= key->min) ||
        (key->max > 0 && value > key->max))
        return fail(problem, "is out of range");
    if (value > config_number_limit(key))
        return fail_too_large(key, problem);
    return 0;
}

/* Checks the length too, because a NUL in the text would hide the rest. */
static bool is_number_text(const struct config_node *node)
{
    return !node->quoted && strlen(node->text) == node->length;
}

static int fail_number(const struct config_key *key, const struct config_node *node,
                       struct text *problem)
{
    if (node->quoted)
        return fail_quoted(key, problem);
    text_printf(problem, "is not %s", config_type_noun(key));
    return -EINVAL;
}

static int set_int(int64_t *member, const struct config_key *key, const struct config_node *node,
                   struct text *problem)
{
    int64_t value;

    if (key->allows_auto && is_word(node, "auto")) {
        *member = INT_UNKNOWN;
        return 0;
    }
    int r = is_number_text(node) ? number_parse_int(node->text, &value) : -EINVAL;
    if (r == -ERANGE)
        return *node->text == '-' ? fail(problem, "is out of range") : fail_too_large(key, problem);
    if (r < 0)
        return fail_number(key, node, problem);
    r = check_range(key, (double)value, problem);
    if (r < 0)
        return r;
    *member = value;
    return 0;
}

static int set_real(double *member, const struct config_key *key, const struct config_node *node,
                    struct text *problem)
{
    double value;

    if (key->allows_auto && is_word(node, "auto")) {
        *member = REAL_UNKNOWN;
        return 0;
    }
    if (!is_number_text(node) || number_parse_real(node->text, &value) < 0)
        return fail_number(key, node, problem);
    int r = check_range(key, value, problem);
    if (r < 0)
        return r;
    *member = value + 0.0; /* turns -0 into 0 */
    return 0;
}

/* Returns the text with `~` replaced by $HOME. Returns NULL if out of memory, or with a reason if
 * there is no home directory. */
static const char *expand_home(struct arena *arena, const struct config_node *node,
                               struct text *problem)
{
    _cleanup_text_ struct text path = {0};
    const char *home = getenv("HOME");

    if (!home || *home != '/') {
        text_append_string(problem, "needs $HOME, which is not set to an absolute path");
        return NULL;
    }
    text_append_string(&path, home);
    text_append(&path, node->text + 1, node->length - 1);
    return text_error(&path) < 0 ? NULL : arena_copy(arena, path.bytes, path.length);
}

const char *config_value_path(struct arena *arena, const struct config_node *node,
                              struct text *problem)
{
    bool in_home = node->text[0] == '~' && (node->length == 1 || node->text[1] == '/');
    const char *path =
        in_home ? expand_home(arena, node, problem) : arena_copy(arena, node->text, node->length);
    if (!path)
        return NULL;

    struct config_node expanded = {.text = path, .length = strlen(path)};
    const char *reason = config_text_problem(node, PATH_MAX - 1);
    if (!reason)
        reason = config_text_problem(&expanded, PATH_MAX - 1);
    if (!reason && expanded.length == 0)
        reason = "is empty";
    if (!reason && *path != '/')
        reason = "is not an absolute path";
    if (reason) {
        text_append_string(problem, reason);
        return NULL;
    }
    return path;
}

static int set_path(struct config *config, const char **member, const struct config_key *key,
                    const struct config_node *node, struct text *problem)
{
    if (key->allows_empty && (node->length == 0 || config_node_is_null(node))) {
        *member = "";
        return 0;
    }
    const char *path = config_value_path(&config->arena, node, problem);
    if (path && path[strlen(path) - 1] == '/') {
        text_append_string(problem, "ends in '/', so it is not a file");
        path = NULL;
    }
    if (!path)
        return problem->length ? -EINVAL : -ENOMEM;
    *member = path;
    return 0;
}

static int set_access(struct config *config, struct access_config *member,
                      const struct config_node *node, struct text *problem)
{
    static const char prefix[] = "group:";
    struct access_config access = {.kind = ACCESS_GROUP};

    if (is_word(node, "owner")) {
        access.kind = ACCESS_OWNER;
    } else if (is_word(node, "everyone")) {
        access.kind = ACCESS_EVERYONE;
    } else {
        size_t skip = sizeof(prefix) - 1;
        if (node->length < skip || memcmp(node->text, prefix, skip) != 0)
            return fail(problem, "is not one of the allowed words");
        if (node->length == skip)
            return fail(problem, "lacks the name of a group");
        if (config_text_problem(node, skip + GROUP_MAX_BYTES) ||
            strpbrk(node->text + skip, ": \t,/"))
            return fail(problem, "is not the name of a group");
        access.group = arena_copy(&config->arena, node->text + skip, node->length - skip);
        if (!access.group)
            return -ENOMEM;
    }
    *member = access;
    return 0;
}

int config_value_set(struct config *config, const struct config_key *key,
                     const struct config_node *node, struct text *problem)
{
    void *member = (char *)config + key->offset;

    switch (key->type) {
    case CONFIG_BOOL: return set_bool(member, key, node, problem);
    case CONFIG_SWITCH: return set_switch(member, key, node, problem);
    case CONFIG_CHOICE: return set_choice(member, key, node, problem);
    case CONFIG_INT: return set_int(member, key, node, problem);
    case CONFIG_REAL: return set_real(member, key, node, problem);
    case CONFIG_PATH: return set_path(config, member, key, node, problem);
    case CONFIG_ACCESS: return set_access(config, member, node, problem);
    case CONFIG_WORDS:
    case CONFIG_RULES: break; /* lists, see config-apply.c */
    }
    return -EINVAL;
}
