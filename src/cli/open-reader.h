/* Opens the source of data for the verbs that read. These functions print each error once and
 * return 0 or the verb's exit status: 1 for a failure, EXIT_NO_DATA where there is nothing to show.
 */
#pragma once

#include "cli/command.h"
#include "client/reader.h"
#include "config/config.h"

/* Connects to the daemon, or opens the database if there is no daemon. Options, configuration and
 * state directory determine the paths. EXIT_NO_DATA: neither exists. The caller closes *ret. */
int open_reader(const struct command *command, const struct command_context *context,
                struct reader **ret);

/* The same, but prints nothing where neither exists, for output that can be an empty list. */
int open_reader_if_any(const struct command *command, const struct command_context *context,
                       struct reader **ret);

/* Connects to the daemon. EXIT_NO_DATA: there is none. The caller closes *ret. */
int open_client(const struct command *command, const struct command_context *context,
                struct client **ret);

/* Reports that a query failed with `error`; returns 1. */
int reader_failed(const struct command *command, const struct reader *reader, int error);

/* Reports that there is no run `name`, and suggests a similar name. Returns EXIT_NO_DATA, or 1 if
 * the search for names failed. */
int reader_has_no_job(const struct command *command, struct reader *reader, const char *name);

/* Prints a note if the data comes from an unexpected source. For use before the data is printed. */
void note_source(const struct reader *reader);

/* " of yours" for a message about jobs that were not found, if the source hides those of other
 * users; else "". */
const char *of_yours(const struct reader *reader);

/* Prints that there is nothing to show, and which source was read. Returns EXIT_NO_DATA. */
int report_no_data(const struct command *command, const struct reader *reader, const char *format,
                   ...) _printf_(3, 4);
