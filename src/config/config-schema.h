/* The schema of the configuration, said once: defaults, checks, error messages, `sonde config show`
 * and the table in docs/CONFIGURATION.md all come from it. Adding a key is one member in struct
 * config and one line in the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum config_type {
    CONFIG_BOOL,   /* bool */
    CONFIG_SWITCH, /* enum auto_switch */
    CONFIG_CHOICE, /* an enum, words in `names` */
    CONFIG_INT,    /* int64_t */
    CONFIG_REAL,   /* double */
    CONFIG_PATH,   /* const char * */
    CONFIG_ACCESS, /* struct access_config */
    CONFIG_WORDS,  /* struct text_list */
    CONFIG_RULES,  /* struct job_rule_list */
};

struct config_key {
    const char *path; /* sections and name, with dots */
    enum config_type type;
    size_t offset;             /* in struct config */
    const char *fallback;      /* the default as it would stand in a file; NULL: see the note */
    const char *fallback_note; /* the default in words, where `fallback` does not say it */
    double min;                /* for numbers */
    double max;                /* 0: only the general limits */
    bool min_excluded;
    bool allows_auto;    /* a number may be `auto` */
    bool allows_empty;   /* a path may be empty */
    double unit_seconds; /* for times: the unit that the number counts */
    const char *const *names;
    size_t name_count;
    const char *meaning; /* one line, for the documentation */
};

/* In the order of the documentation; the keys of a section stand together. */
extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Above the number of keys, for arrays that are indexed by key. */
#define CONFIG_KEYS_MAX 64

/* A section is the first `length` bytes of a key's path, with the dot; the root is empty. */
struct config_section {
    const char *path;
    size_t length;
};

/* The first key that is `name` in the section or lies below it: a leaf if its path ends there. NULL
 * if there is none. */
const struct config_key *config_section_find(struct config_section section, const char *name,
                                             size_t length, bool *ret_is_leaf);

/* Looks for what may have been meant by a name that is not in the section; appends it to `out`, or
 * nothing. */
void config_section_suggest(struct config_section section, const char *name, size_t length,
                            struct text *out);

/* How many sections two keys have in common. */
size_t config_shared_sections(const char *path, const char *other);
/* How many sections a key is in. */
size_t config_section_depth(const char *path);

/* The noun for a value of the key: "a number". */
const char *config_type_noun(const struct config_key *key);

/* What is allowed, in words: "0.01 or more". */
void config_append_allowed(struct text *out, const struct config_key *key);

/* The largest value of a number, whatever its range, and how to say it. */
double config_number_limit(const struct config_key *key);
void config_append_limit(struct text *out, const struct config_key *key);

/* The shortest text that reads back as the same number. */
void config_append_number(struct text *out, double value);
