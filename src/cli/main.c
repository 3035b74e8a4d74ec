/* Finds the verb, parses its options, and runs it. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/suggest.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/output.h"

/* ---- help ---- */

static void print_overview(FILE *into)
{
    fputs("sonde: a job-aware resource profiler\n\nusage: sonde VERB [OPTIONS]\n\n", into);
    for (size_t i = 0; i < command_count; i++)
        fprintf(into, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n'sonde VERB --help' describes a verb and its options.\n", into);
}

static void format_options(const struct command_option *options, size_t count, struct text *out)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].instead)
            continue;
        char left[64], letter[8] = "    ";
        if (options[i].short_name)
            snprintf(letter, sizeof(letter), "-%c, ", options[i].short_name);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, options[i].name,
                 options[i].argument ? " " : "", options[i].argument ? options[i].argument : "");
        text_printf(out, "  %-26s %s%s\n", left, options[i].help,
                    options[i].is_repeatable ? " " OPTION_IS_REPEATABLE : "");
    }
}

/* Each line of `usage` is one form. */
static void format_usage(const char *usage, struct text *out)
{
    const char *begin = "usage: sonde ";

    for (;; usage += strcspn(usage, "\n") + 1, begin = "       sonde ") {
        size_t length = strcspn(usage, "\n");
        text_printf(out, "%s%.*s\n", begin, (int)length, usage);
        if (!usage[length])
            return;
    }
}

static int print_help(const struct command *command)
{
    _cleanup_text_ struct text out = {0};

    format_usage(command->usage, &out);
    text_printf(&out, "\n%s\n", command->summary);
    if (command->details)
        text_printf(&out, "\n%s", command->details);
    text_append_string(&out, "\nOptions:\n");
    format_options(command->options, command->option_count, &out);
    format_options(common_options, common_option_count, &out);
    return output_text(command, &out);
}

/* ---- dispatch ---- */

static int run_command(const struct command *command, int argc, char **argv)
{
    struct command_option options[ARGUMENTS_MAX_OPTIONS];
    struct arguments arguments;
    char error[256];

    if (command->option_count)
        memcpy(options, command->options, command->option_count * sizeof(*options));
    memcpy(options + command->option_count, common_options, common_option_count * sizeof(*options));
    if (arguments_parse(argc, argv, options, command->option_count + common_option_count,
                        command->stops_at_word, &arguments, error, sizeof(error)) < 0)
        return command_misused(command, "%s", error);
    if (arguments_has(&arguments, "help"))
        return print_help(command);
    for (size_t i = 0; i < common_option_count; i++) {
        const char *value = arguments_value(&arguments, common_options[i].name);
        if (value && !*value) /* most likely from a variable that is not set */
            return command_misused(command,
                                   "--%s: the value is empty; give a path, or omit the option",
                                   common_options[i].name);
    }
    const struct command_context context = {
        .config_path = arguments_value(&arguments, "config"),
        .state_dir = arguments_value(&arguments, "state-dir"),
        .socket_path = arguments_value(&arguments, "socket"),
    };
    return command->run(&context, &arguments);
}

static int report_unknown_verb(const char *name)
{
    struct suggestion near = {0};

    if (*name == '-') {
        log_error("option '%s' before the verb; write: sonde VERB %s", SHOWN(name), SHOWN(name));
        return EXIT_USAGE;
    }

    for (size_t i = 0; i < command_count; i++)
        suggestion_consider(&near, name, strlen(name), commands[i]->name,
                            strlen(commands[i]->name));
    if (near.name)
        log_error("unknown verb '%s'; did you mean '%s'?", SHOWN(name), near.name);
    else
        log_error("unknown verb '%s'; 'sonde --help' lists them", SHOWN(name));
    return EXIT_USAGE;
}

/* `name` NULL: the overview. */
static int show_help(const char *name)
{
    const struct command *command = name ? commands_find(name) : NULL;

    if (name && !command && strcmp(name, "help") != 0)
        return report_unknown_verb(name);
    if (command)
        return print_help(command);
    print_overview(stdout);
    return finish_output(NULL);
}

/* A file that sonde opens must not get the number of a closed standard stream: messages for stderr
 * would be written into it. An O_PATH descriptor takes the number; it can be neither read nor
 * written, and a command does not inherit it but finds the stream closed. */
static void occupy_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* gets the lowest free number, fd */
}

/* If a thread was left hanging in a library, exit() would free what that library still uses. */
static int end_process(int status)
{
    if (!threads_were_abandoned())
        return status;
    /* Only these streams: the thread may hold the lock of another one. */
    fflush(stdout);
    fflush(stderr);
    _exit(status);
}

int main(int argc, char **argv)
{
    /* Threads hand memory to each other and rarely allocate at the same time. One malloc arena for
     * each would grow page by page, which delays a short run. */
    mallopt(M_ARENA_MAX, 1);
    occupy_closed_streams();
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return show_help(argc > 2 ? argv[2] : NULL);
    bool wants_version = strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0;
    const char *name = wants_version ? "version" : argv[1];
    const struct command *command = commands_find(name);
    if (!command)
        return report_unknown_verb(name);

    int status = run_command(command, argc - 1, argv + 1);
    return end_process(status ? status : finish_output(command));
}
