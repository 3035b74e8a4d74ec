/* Internal stages of loading a configuration file: bytes → (config-yaml.c) tree of nodes →
 * (config-apply.c, config-rules.c) each key's node → (config-value.c) member of struct config. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"
#include "config/config-schema.h"
#include "config/config.h"

enum config_node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAPPING,
    NODE_ALIAS,
};

struct config_node {
    enum config_node_kind kind;
    const char *text; /* of a scalar; may contain NULs */
    size_t length;
    bool quoted;             /* in quotes or as a block: always text */
    const char *unsupported; /* a YAML feature that it must not use, for example "anchors" */
    unsigned line;           /* line and column start at 1 */
    unsigned column;
    struct config_node *first; /* items of a list; alternating keys and values of a mapping */
    struct config_node *next;
};

/* Parses YAML. Returns 0 with the root, which is NULL for an empty file; -EINVAL with the reason in
 * `errors`; or -ENOMEM. `arena` owns the nodes. */
int config_yaml_parse(const char *file, const char *bytes, size_t length, struct arena *arena,
                      struct config_node **ret_root, struct config_errors *errors);

/* State while a tree is applied to a configuration. */
struct config_apply {
    const char *file;
    struct config *config;
    struct config_errors *errors;
    const struct config_node *values[CONFIG_KEYS_MAX]; /* by key; NULL: not in the file */
    int error;                                         /* 0 or -ENOMEM */
};

/* Sets all keys of a tree; adds errors to `apply->errors`. */
void config_apply_root(struct config_apply *apply, const struct config_node *root);
/* Sets one key. */
void config_apply_leaf(struct config_apply *apply, const struct config_key *key,
                       const struct config_node *node);
/* Sets `jobs.rules`. */
void config_apply_rules(struct config_apply *apply, const struct config_key *key,
                        const struct config_node *node);

/* Copies a list of words into the configuration's arena if all pass `check` (NULL: any text).
 * Returns whether it succeeded. `noun` names the items in errors. */
bool config_apply_words(struct config_apply *apply, const char *path, const char *noun,
                        const struct config_node *node, const char *(*check)(const char *word),
                        struct text_list *ret);

/* Returns whether the node has the given kind and a value, and uses no unsupported YAML feature.
 * Otherwise adds an error; `noun` names the expected value. */
bool config_apply_expect(struct config_apply *apply, const struct config_node *node,
                         enum config_node_kind kind, const char *path, const char *noun);

/* Adds `FILE:LINE:COLUMN: PATH: PROBLEM`; `path` may be NULL. */
void config_report(struct config_apply *apply, const struct config_node *node, const char *path,
                   const char *format, ...) _printf_(4, 5);
/* The same, starting with the node's value: `'fast' is not a number`, `a list is not a number`. */
void config_report_value(struct config_apply *apply, const struct config_node *node,
                         const char *path, const char *format, ...) _printf_(4, 5);

/* Returns whether the value is missing: empty, `~` or `null`, not in quotes. */
bool config_node_is_null(const struct config_node *node);

/* Sets the member of a key with a scalar value. Returns 0, -EINVAL with the problem ("is not a
 * number") appended to `problem`, or -ENOMEM. */
int config_value_set(struct config *config, const struct config_key *key,
                     const struct config_node *node, struct text *problem);

/* Returns an absolute path with `~` expanded; NULL with the reason in `problem`, or NULL without a
 * reason if out of memory. */
const char *config_value_path(struct arena *arena, const struct config_node *node,
                              struct text *problem);

/* Returns why a text is not a valid value (longer than `max_bytes`, control characters), or NULL if
 * it is valid. */
const char *config_text_problem(const struct config_node *node, size_t max_bytes);

/* Adds an error. `line` 0: the whole file; `column` 0: unknown. */
void config_errors_add(struct config_errors *errors, const char *file, unsigned line,
                       unsigned column, const char *message);
