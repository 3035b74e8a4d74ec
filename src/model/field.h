/* The field table: the single description of sonde's records.
 *
 * A record is a C struct described by a table of fields: name, type, offset, unit, origin, cost of
 * reading, storage resolution, width on screen. The JSON encoder and decoder, the store's columns,
 * `sonde ps`, `sonde top` and docs/FIELDS.md derive from these tables. To add a field, add a member
 * to the struct and a line to its table.
 *
 * Unknown is not zero. A value that could not be read is INT_UNKNOWN, REAL_UNKNOWN, a NULL text, a
 * NUL character or enumerator 0 (including TRUTH_UNKNOWN), and null in JSON. record_init() sets all
 * fields to unknown. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define INT_UNKNOWN  INT64_MIN
#define REAL_UNKNOWN ((double)NAN)

/* All `_mb` are MiB. */
#define BYTES_PER_MB 1048576.0

static inline bool int_is_known(int64_t value)
{
    return value != INT_UNKNOWN;
}

static inline bool real_is_known(double value)
{
    return !isnan(value);
}

/* Unknown stays unknown. */
static inline double bytes_to_mb(int64_t bytes)
{
    return int_is_known(bytes) ? (double)bytes / BYTES_PER_MB : REAL_UNKNOWN;
}

enum truth {
    TRUTH_UNKNOWN,
    TRUTH_NO,
    TRUTH_YES,
};

static inline int truth_of(bool value)
{
    return value ? TRUTH_YES : TRUTH_NO;
}

enum field_type {
    FIELD_INT,     /* int64_t */
    FIELD_REAL,    /* double */
    FIELD_TEXT,    /* const char *, valid UTF-8 */
    FIELD_CHAR,    /* char */
    FIELD_ENUM,    /* int, names in `names`, 0 unknown */
    FIELD_BOOL,    /* int, enum truth: true or false in JSON */
    FIELD_RECORD,  /* a struct in place, described by `record` */
    FIELD_INLINE,  /* the same; in JSON its fields are fields of the outer record */
    FIELD_RECORDS, /* LIST() of structs described by `record` */
    FIELD_KEYED,   /* the same; in JSON an object keyed by the record's first field */
    FIELD_INTS,    /* LIST(int64_t) */
    FIELD_TEXTS,   /* LIST(const char *) */
    FIELD_TALLY,   /* LIST(struct tally): {name: number}; null while `items` is NULL */
};

enum field_unit {
    UNIT_NONE,
    UNIT_COUNT,
    UNIT_PERCENT, /* for CPU, 100 is one core */
    UNIT_MB,      /* MiB */
    UNIT_BYTES,
    UNIT_SECONDS,
    UNIT_EPOCH, /* Unix seconds: labels, never arithmetic */
    UNIT_CELSIUS,
    UNIT_MHZ,
    UNIT_WATT,
};

/* How a minute is represented after its samples are deleted. */
enum field_rollup {
    ROLLUP_LAST, /* counters, states and values that rarely change */
    ROLLUP_MEAN, /* gauges */
};

enum field_cost {
    COST_NONE,   /* computed, or known without reading */
    COST_CORE,   /* read for every process at every tick */
    COST_ONCE,   /* read for a new process and after an exec */
    COST_EXTRA,  /* read at every tick, only for processes of jobs */
    COST_TRACED, /* only if a tracer or the kernel collector provides it */
};

struct field {
    const char *name; /* in JSON and SQLite */
    /* A second name there, which readers of the reference or of version 0.1.0 know; NULL: none. An
     * outer record that contains the field inline and has a field of that name omits the alias. */
    const char *alias;
    enum field_type type;
    size_t offset;
    enum field_unit unit;
    enum field_cost cost;
    const char *origin; /* source of the value, for the documentation */
    double resolution;  /* precision in storage and JSON; 0: full */
    enum field_rollup rollup;
    const char *title; /* column heading; NULL: not shown in columns */
    unsigned width;    /* columns on a screen */
    const char *label; /* of a run: name of the figure in reports; NULL: not shown there */
    bool is_live;      /* of a run or a step: the store updates it while the run goes on */
    bool is_reported;  /* of a run: its parent may report the figure with job.finish */
    bool is_low;       /* of a run: a lower bound if its exactness is unknown */
    /* Of a run: the exactness that applies; NULL: the one of the same name, if there is one. */
    const char *exactness;
    /* Of a run: smaller differences from earlier runs are never unusual; 0: not compared. */
    double min_difference;
    bool holds_command; /* of a text: a command line, or a text that may contain one; redacted */
    bool required;      /* decoding fails if it is missing or null */
    bool key_required;  /* decoding fails if it is missing; null means unknown */
    bool omit_unknown;  /* JSON omits it while it is unknown, instead of null */
    const char *const *names;
    size_t name_count;
    const struct record *record;
    const char *meaning; /* one line for the documentation */
};

struct record {
    const char *name;
    size_t size;
    const struct field *fields;
    size_t field_count;
};

#define LIST(type)                                                                                 \
    {                                                                                              \
        type *items;                                                                               \
        size_t count;                                                                              \
    }

struct tally {
    const char *name;
    double value;
};

struct tally_list LIST(struct tally);
struct int_list LIST(int64_t);
struct text_list LIST(const char *);
/* A FIELD_RECORDS for code that does not know its item type. */
struct any_list LIST(void);

/* Sets all fields to unknown; other members are not changed. */
void record_init(const struct record *record, void *object);

/* Returns the entry of that name, or NULL. */
const struct tally *tally_find(const struct tally_list *list, const char *name);

/* Returns the field of that name or alias, or NULL. Fields of inner records are not found. */
const struct field *record_find(const struct record *record, const char *name);

/* Returns the older name of a field that has two. The database and lists of figures use it, because
 * version 0.1.0 knows no other one. */
const char *field_first_name(const struct field *field);

/* Returns whether the value is known; records are, whatever they contain. */
bool field_is_known(const struct field *field, const void *value);

/* Returns the number of decimals for the field's resolution; -1 for full precision. */
int field_decimals(const struct field *field);

const char *field_unit_name(enum field_unit unit);
const char *field_cost_name(enum field_cost cost);
const char *field_type_name(enum field_type type);

/* Returns an enumerator's name, or NULL if it is unknown or out of range. */
const char *field_enum_name(const struct field *field, int value);

/* For the tables: FIELD_OF(struct process_metric, pid, FIELD_INT, …) */
#define FIELD_OF(struct_type, member, field_type, ...)                                             \
    {                                                                                              \
        .name = #member, .type = (field_type), .offset = offsetof(struct_type, member),            \
        __VA_ARGS__                                                                                \
    }

#define RECORD_OF(struct_type, record_name, table)                                                 \
    {                                                                                              \
        .name = (record_name), .size = sizeof(struct_type), .fields = (table),                     \
        .field_count = sizeof(table) / sizeof((table)[0]),                                         \
    }
