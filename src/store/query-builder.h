/* Builds a SELECT from optional conditions, and runs it. */
#pragma once

#include "store/rows.h"

/* The SQL, and the values of its parameters in their order. Zero-initialised is empty; query_run()
 * frees it. Texts are borrowed until then. */
struct query_builder {
    struct text sql;
    struct {
        bool is_text;
        double number;
        const char *text;
    } values[10];
    size_t count;
};

/* Append `condition`, which has one parameter, with its value; nothing if the value is unknown or
 * NULL. */
void query_add_number(struct query_builder *query, const char *condition, double value);
void query_add_int(struct query_builder *query, const char *condition, int64_t value);
void query_add_text(struct query_builder *query, const char *condition, const char *value);
/* The same, rounded to the resolution of the column `name`, so that stored times compare equal. */
void query_add_time(struct query_builder *query, const struct columns *columns, const char *name,
                    const char *condition, double value);
/* Appends a limit on the number of rows; 0: no limit. */
void query_add_limit(struct query_builder *query, size_t limit);

/* Runs the query, collects the rows with rows_collect(), and frees the query. Returns 0 or a
 * negative errno. */
int query_run(struct query_builder *query, struct database *database, size_t item_size,
              row_reader read, void *context, struct arena *arena, struct any_list *ret);
