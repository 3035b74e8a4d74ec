/* A verb: one const entry per file (cmd-VERB.c). Dispatch and help derive from these entries. */
#pragma once

#include <stddef.h>

#include "cli/arguments.h"

/* Exit statuses of all verbs but `run`, which has those of its command. */
#define EXIT_USAGE   2 /* wrong usage, or a wrong configuration */
#define EXIT_NO_DATA 3 /* nothing failed, but there is nothing to show */

/* The options that every verb accepts; NULL if not given. */
struct command_context {
    const char *config_path;
    const char *state_dir;
    const char *socket_path;
};

struct command {
    const char *name;
    const char *summary; /* one sentence, for the list of verbs */
    const char *usage;   /* after "sonde "; one line for each form */
    const char *details; /* more help, ends in a newline; may be NULL */
    const struct command_option *options;
    size_t option_count;
    bool has_no_page;   /* sonde(1) describes the verb */
    bool stops_at_word; /* the first word and all after it belong to another command */
    int usage_status;   /* exit status for wrong usage; 0: EXIT_USAGE */
    int (*run)(const struct command_context *context, struct arguments *arguments);
};

extern const struct command command_admit;
extern const struct command command_analyze;
extern const struct command command_config;
extern const struct command command_daemon;
extern const struct command command_diff;
extern const struct command command_estimate;
extern const struct command command_events;
extern const struct command command_jobs;
extern const struct command command_ps;
extern const struct command command_report;
extern const struct command command_run;
extern const struct command command_status;
extern const struct command command_top;
extern const struct command command_version;

/* Flushes stdout. Returns 0, or 1 after printing why it could not be written. `command` NULL: no
 * verb was given. */
int finish_output(const struct command *command);

/* Prints what is wrong with the command line and how to fix it. Returns the verb's usage status. */
int command_misused(const struct command *command, const char *format, ...) _printf_(2, 3);
