/* The way of a configuration file, for the files that walk it and nobody else:
 * bytes → (config-yaml.c) tree of nodes → (config-apply.c, config-rules.c) each key's node →
 * (config-value.c) member of struct config. */
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
    const char *text; /* of a scalar; may hold NULs */
    size_t length;
    bool quoted;         /* in quotes or as a block: text, whatever it looks like */
    const char *refused; /* what it has that sonde does not take: "anchors", "tags", "aliases" */
    unsigned line;       /* both from 1 */
    unsigned column;
    struct config_node *first; /* items of a list; keys and values of a mapping in turn */
    struct config_node *next;
};

/* 0 with the root, which is NULL for an empty file; -EINVAL with the reason in `errors`; -ENOMEM.
 * The nodes live in `arena`. */
int config_yaml_parse(const char *file, const char *bytes, size_t length, struct arena *arena,
                      struct config_node **ret_root, struct config_errors *errors);

/* A tree on its way into a configuration. */
struct config_apply {
    const char *file;
    struct config *config;
    struct config_errors *errors;
    const struct config_node *values[CONFIG_KEYS_MAX]; /* by key; NULL: not in the file */
    int error;                                         /* 0 or -ENOMEM */
};

/* Sets all keys of a tree; what is wrong goes to `apply->errors`. */
void config_apply_root(struct config_apply *apply, const struct config_node *root);
/* Sets one key. */
void config_apply_leaf(struct config_apply *apply, const struct config_key *key,
                       const struct config_node *node);
/* Sets `jobs.rules`. */
void config_apply_rules(struct config_apply *apply, const struct config_key *key,
                        const struct config_node *node);

/* Copies a list of words that all pass `check` (NULL: any text) into the configuration's arena;
 * whether all was well. `noun` says what the list holds. */
bool config_apply_words(struct config_apply *apply, const char *path, const char *noun,
                        const struct config_node *node, const char *(*check)(const char *word),
                        struct text_list *ret);

/* Whether the node is a list or a mapping as wanted, without anything that is refused; if not, that
 * is reported. */
bool config_apply_expect(struct config_apply *apply, const struct config_node *node,
                         enum config_node_kind kind, const char *path, const char *noun);

/* Adds `FILE:LINE:COLUMN: PATH: PROBLEM`; `path` may be NULL. */
void config_report(struct config_apply *apply, const struct config_node *node, const char *path,
                   const char *format, ...) _printf_(4, 5);
/* The same with the node's value in front, as `'fast' is not a number`, `a list is not a number`.
 */
void config_report_value(struct config_apply *apply, const struct config_node *node,
                         const char *path, const char *format, ...) _printf_(4, 5);

/* Whether there is nothing where a value should be: empty, `~` or `null`, not in quotes. */
bool config_node_is_null(const struct config_node *node);

/* Sets the member of a key that is one scalar. 0, -EINVAL with what is wrong with the value ("is
 * not a number") appended to `problem`, or -ENOMEM. */
int config_value_set(struct config *config, const struct config_key *key,
                     const struct config_node *node, struct text *problem);

/* A path as it stands in a file: `~` expanded, absolute; NULL with the same reasons in `problem`,
 * or without one if memory is short. */
const char *config_value_path(struct arena *arena, const struct config_node *node,
                              struct text *problem);

/* Why a text cannot be a value: too long for `max_bytes`, control characters; NULL if it can. */
const char *config_text_problem(const struct config_node *node, size_t max_bytes);

/* Adds a line; `line` 0: the file as a whole; `column` 0: it is not known. */
void config_errors_add(struct config_errors *errors, const char *file, unsigned line,
                       unsigned column, const char *message);
