/* The schema of the configuration. Defaults, checks, error messages, `sonde config show` and the
 * table in docs/CONFIGURATION.md derive from it. To add a key, add a member to struct config and a
 * line to the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum config_type {
    CONFIG_BOOL,   /* bool */
    CONFIG_SWITCH, /* enum auto_switch */
    CONFIG_CHOICE, /* an enum with its values in `names` */
    CONFIG_INT,    /* int64_t */
    CONFIG_REAL,   /* double */
    CONFIG_PATH,   /* const char * */
    CONFIG_ACCESS, /* struct access_config */
    CONFIG_WORDS,  /* struct text_list */
    CONFIG_RULES,  /* struct job_rule_list */
};

struct config_key {
    const char *path; /* sections and name, separated by dots */
    enum config_type type;
    size_t offset;             /* in struct config */
    const char *fallback;      /* the default as written in a file; NULL: see `fallback_note` */
    const char *fallback_note; /* the default as text, if `fallback` does not show it */
    double min;                /* for numbers */
    double max;                /* 0: only the general limits */
    bool min_excluded;
    bool allows_auto;  /* a number may be `auto` */
    bool allows_empty; /* a path may be empty */
    /* A running daemon keeps the value when it reloads the file. Only for single values. */
    bool needs_restart;
    double unit_seconds; /* for times: the unit of the number */
    const char *const *names;
    size_t name_count;
    const char *meaning; /* one line for the documentation */
};

/* In the order of the documentation; the keys of a section are adjacent. */
extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Upper bound of the number of keys, for arrays that are indexed by key. */
#define CONFIG_KEYS_MAX 64

/* A section is the first `length` bytes of a key's path, including the dot; the root is empty. */
struct config_section {
    const char *path;
    size_t length;
};

/* Finds `name` in a section. Returns the key of that name, a leaf; or, if `name` is a section, the
 * first key in it; or NULL. */
const struct config_key *config_section_find(struct config_section section, const char *name,
                                             size_t length, bool *ret_is_leaf);

/* Appends a similar known name to `out` for a name that is not in the section, or nothing. */
void config_section_suggest(struct config_section section, const char *name, size_t length,
                            struct text *out);

/* Returns the number of sections that two keys share. */
size_t config_shared_sections(const char *path, const char *other);
/* Returns the number of sections that contain a key. */
size_t config_section_depth(const char *path);

/* Returns the noun for a value of the key: "a number". */
const char *config_type_noun(const struct config_key *key);

/* Appends the allowed values: "0.01 or more". */
void config_append_allowed(struct text *out, const struct config_key *key);

/* Returns the general upper limit of a number, which applies in addition to its range. */
double config_number_limit(const struct config_key *key);
/* Appends that limit as text. */
void config_append_limit(struct text *out, const struct config_key *key);

/* Appends the shortest text that parses to the same number. */
void config_append_number(struct text *out, double value);
