#include "cli/open-reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/load-config.h"

static int find_sockets(const struct command *command, const struct command_context *context,
                        struct socket_paths *ret)
{
    int r = paths_sockets(context->socket_path, context->state_dir, getenv, geteuid(), ret);

    if (r == 0)
        return 0;
    log_error("%s: %s", command->name, strerror(-r));
    return 1;
}

/* Prints a note if the user named a socket, but the data comes from the database. */
static void note_missing_daemon(const struct socket_paths *sockets, const struct reader *reader)
{
    if (!sockets->is_named || reader_source(reader) != READER_STORE || reader_note(reader))
        return;
    if (reader_daemon_error(reader))
        log_note("%s; reading '%s' instead", reader_daemon_error(reader), reader_place(reader));
    else
        log_note("no daemon at '%s'; reading '%s' instead", sockets->items[0],
                 reader_place(reader));
}

static int open_any(const struct command *command, const struct command_context *context,
                    bool reports_no_data, struct reader **ret)
{
    _cleanup_socket_paths_ struct socket_paths sockets = {0};
    _cleanup_config_ struct config *config = NULL;
    struct reader_error error = {""};

    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    int status = find_sockets(command, context, &sockets);
    if (status)
        return status;
    int r = resolve_paths(context, config);
    bool has_path = r == 0;
    if (r == 0 || r == -ENOENT) {
        const struct reader_options options = {
            .socket_paths = (const char *const *)sockets.items,
            .database_path = has_path ? config->storage_path : NULL,
        };
        r = reader_open(&options, ret, &error);
    }
    if (r == 0) {
        note_missing_daemon(&sockets, *ret);
        return 0;
    }
    bool has_no_data = r == -ENOENT && has_path;
    if (!has_no_data || reports_no_data)
        log_error("%s: %s", command->name, error.text[0] ? error.text : strerror(-r));
    return has_no_data ? EXIT_NO_DATA : 1;
}

int open_reader(const struct command *command, const struct command_context *context,
                struct reader **ret)
{
    return open_any(command, context, true, ret);
}

int open_reader_if_any(const struct command *command, const struct command_context *context,
                       struct reader **ret)
{
    return open_any(command, context, false, ret);
}

int open_client(const struct command *command, const struct command_context *context,
                struct client **ret)
{
    _cleanup_socket_paths_ struct socket_paths sockets = {0};
    struct client_error error = {""};

    int status = find_sockets(command, context, &sockets);
    if (status)
        return status;
    const struct client_options options = {.socket_paths = (const char *const *)sockets.items};
    int r = client_open(&options, ret, &error);
    if (r == 0)
        return 0;
    log_error("%s: %s", command->name, error.text);
    return r == -ENOENT ? EXIT_NO_DATA : 1;
}

int reader_failed(const struct command *command, const struct reader *reader, int error)
{
    const char *message = reader_strerror(reader);

    log_error("%s: %s", command->name, *message ? message : strerror(-error));
    return 1;
}

/* " (from the daemon at '/run/sonde/sonde.sock')": ends a message about missing data with the
 * source that was read, or with why it could not be read. */
static void append_source(const struct reader *reader, struct text *out)
{
    const char *reason = reader_note(reader) ? reader_note(reader) : reader_daemon_error(reader);

    if (reason)
        text_printf(out, " (%s)", reason);
    else if (reader_source(reader) == READER_DAEMON)
        text_printf(out, " (from the daemon at '%s')", reader_place(reader));
}

const char *of_yours(const struct reader *reader)
{
    return reader_sees_only_own(reader) ? " of yours" : "";
}

int reader_has_no_job(const struct command *command, struct reader *reader, const char *name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text message = {0};
    const char *similar = NULL;
    size_t length = strcspn(name, "~");

    int r = reader_similar_job(reader, name, &arena, &similar);
    if (r < 0)
        return reader_failed(command, reader, r);
    if (similar && strlen(similar) == length && strncmp(name, similar, length) == 0)
        text_printf(&message, "no run '%s'; 'sonde jobs --job %s' lists the runs", SHOWN(name),
                    similar);
    else {
        _cleanup_free_ char *job = strndup(name, length);
        text_printf(&message, "no job%s named '%s'; ", of_yours(reader), job ? SHOWN(job) : "");
        if (similar)
            text_printf(&message, "did you mean '%s'?", similar);
        else
            text_append_string(&message, "'sonde jobs' lists them");
    }
    append_source(reader, &message);
    log_error("%s: %s", command->name, text_string(&message));
    return EXIT_NO_DATA;
}

void note_source(const struct reader *reader)
{
    const char *note = reader_note(reader);

    if (note)
        log_note("%s", note);
}

int report_no_data(const struct command *command, const struct reader *reader, const char *format,
                   ...)
{
    _cleanup_text_ struct text line = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&line, format, arguments);
    va_end(arguments);
    append_source(reader, &line);
    log_note("%s: %s", command->name, text_string(&line));
    return EXIT_NO_DATA;
}
