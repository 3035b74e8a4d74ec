/* Finds the verb, parses its options, and runs it. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/suggest.h"
#include "base/thread.h"
#include "cli/command.h"

static const struct command *const commands[] = {
    &command_run,    &command_top,    &command_ps,      &command_jobs,     &command_report,
    &command_events, &command_diff,   &command_analyze, &command_estimate, &command_admit,
    &command_daemon, &command_status, &command_config,  &command_version,
};

static const struct command_option common_options[] = {
    {"config", 0, "FILE", "read the configuration from FILE"},
    {"state-dir", 0, "DIR", "keep state in DIR (or SONDE_STATE_DIR)"},
    {"socket", 0, "PATH", "talk to the daemon at PATH (or SONDE_SOCKET)"},
    {"help", 'h', NULL, "show this help"},
};

/* ---- help ---- */

static void print_overview(FILE *into)
{
    fputs("sonde: a job-aware resource profiler\n\nusage: sonde VERB [OPTIONS]\n\n", into);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        fprintf(into, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n'sonde VERB --help' tells more about each.\n", into);
}

static void print_options(const struct command_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[64], letter[8] = "    ";
        if (options[i].short_name)
            snprintf(letter, sizeof(letter), "-%c, ", options[i].short_name);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, options[i].name,
                 options[i].argument ? " " : "", options[i].argument ? options[i].argument : "");
        printf("  %-26s %s\n", left, options[i].help);
    }
}

static void print_help(const struct command *command)
{
    printf("usage: sonde %s\n\n%s\n", command->usage, command->summary);
    if (command->details)
        printf("\n%s", command->details);
    puts("\nOptions:");
    print_options(command->options, command->option_count);
    print_options(common_options, ARRAY_SIZE(common_options));
}

/* ---- dispatch ---- */

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct command_option options[ARGUMENTS_MAX_OPTIONS];
    struct arguments arguments;
    char error[256];

    if (command->option_count)
        memcpy(options, command->options, command->option_count * sizeof(*options));
    memcpy(options + command->option_count, common_options, sizeof(common_options));
    if (arguments_parse(argc, argv, options, command->option_count + ARRAY_SIZE(common_options),
                        command->stops_at_word, &arguments, error, sizeof(error)) < 0)
        return command_misused(command, "%s", error);
    if (arguments_has(&arguments, "help")) {
        print_help(command);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(common_options); i++) {
        const char *value = arguments_value(&arguments, common_options[i].name);
        if (value && !*value) /* of a variable that is not set, most likely */
            return command_misused(command, "--%s: nothing is given; leave it out, or name one",
                                   common_options[i].name);
    }
    const struct command_context context = {
        .config_path = arguments_value(&arguments, "config"),
        .state_dir = arguments_value(&arguments, "state-dir"),
        .socket_path = arguments_value(&arguments, "socket"),
    };
    return command->run(&context, &arguments);
}

static int unknown_verb(const char *name)
{
    struct suggestion near = {0};

    if (*name == '-') {
        log_error("'%s' stands before the verb; write: sonde VERB %s", name, name);
        return EXIT_USAGE;
    }

    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        suggestion_consider(&near, name, strlen(name), commands[i]->name,
                            strlen(commands[i]->name));
    if (near.name)
        log_error("unknown verb '%s'; did you mean '%s'?", name, near.name);
    else
        log_error("unknown verb '%s'; 'sonde --help' lists them", name);
    return EXIT_USAGE;
}

/* Of a verb, or NULL: of all. */
static int help(const char *name)
{
    const struct command *asked = name ? find_command(name) : NULL;

    if (name && !asked && strcmp(name, "help") != 0)
        return unknown_verb(name);
    if (asked)
        print_help(asked);
    else
        print_overview(stdout);
    return finish_output();
}

/* A standard stream that was closed must not become the number of a file that sonde opens: what is
 * said on stderr would end up there. The place is taken by something that can be neither read nor
 * written, and that a command does not inherit: it finds the stream closed. */
static void hold_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* the lowest that is free: fd */
}

static int end(int status)
{
    if (!threads_were_left())
        return status;
    /* Not all streams: the thread may hold one of its library's while it hangs. */
    fflush(stdout);
    fflush(stderr);
    _exit(status);
}

int main(int argc, char **argv)
{
    /* Threads hand memory to one another and seldom want some at once: an arena for each would grow
     * page by page, which a short run would wait for. */
    mallopt(M_ARENA_MAX, 1);
    hold_closed_streams();
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const struct command *command = find_command(name);
    if (!command)
        return unknown_verb(name);

    int status = run_command(command, argc - 2, argv + 2);
    return end(status ? status : finish_output());
}
