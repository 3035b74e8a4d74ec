#include "cli/open-reader.h"

#include <errno.h>
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

/* The user has named a daemon that is not there. */
static void tell_missing(const struct socket_paths *sockets, const struct reader *reader)
{
    if (!sockets->is_named || reader_source(reader) != READER_STORE || reader_note(reader))
        return;
    if (reader_unasked(reader))
        log_note("%s; this is from '%s'", reader_unasked(reader), reader_place(reader));
    else
        log_note("no daemon answers at '%s'; this is from '%s'", sockets->items[0],
                 reader_place(reader));
}

int open_reader(const struct command *command, const struct command_context *context,
                struct reader **ret)
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
    if (r == 0 || r == -ENOENT) {
        const struct reader_options options = {
            .socket_paths = (const char *const *)sockets.items,
            .database_path = r == 0 ? config->storage_path : NULL,
        };
        r = reader_open(&options, ret, &error);
    }
    if (r == 0) {
        tell_missing(&sockets, *ret);
        return 0;
    }
    log_error("%s: %s", command->name, error.text[0] ? error.text : strerror(-r));
    return 1;
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
    if (client_open(&options, ret, &error) == 0)
        return 0;
    log_error("%s: %s", command->name, error.text);
    return 1;
}

int reader_failed(const struct command *command, const struct reader *reader, int error)
{
    const char *words = reader_strerror(reader);

    log_error("%s: %s", command->name, *words ? words : strerror(-error));
    return 1;
}

/* " (from the daemon at '/run/sonde/sonde.sock')", as the end of a line that tells of nothing:
 * where it was looked for, and where it was not. */
static void append_asked(const struct reader *reader, struct text *out)
{
    const char *trouble = reader_note(reader) ? reader_note(reader) : reader_unasked(reader);

    if (trouble)
        text_printf(out, " (%s)", trouble);
    else if (reader_source(reader) == READER_DAEMON)
        text_printf(out, " (from the daemon at '%s')", reader_place(reader));
}

int reader_has_no_job(const struct command *command, struct reader *reader, const char *name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text words = {0};
    const char *similar = NULL;
    size_t length = strcspn(name, "~");

    int r = reader_similar_job(reader, name, &arena, &similar);
    if (r < 0)
        return reader_failed(command, reader, r);
    if (similar && strlen(similar) == length && strncmp(name, similar, length) == 0)
        text_printf(&words, "there is no run '%s'; 'sonde jobs --job %s' lists what there is", name,
                    similar);
    else if (similar)
        text_printf(&words, "there is no job '%s'; did you mean '%s'?", name, similar);
    else
        text_printf(&words, "there is no job '%s'; 'sonde jobs' lists them", name);
    append_asked(reader, &words);
    log_error("%s: %s", command->name, text_string(&words));
    return 1;
}

void tell_source(const struct reader *reader)
{
    const char *words = reader_note(reader);

    if (words)
        log_note("%s", words);
}

int tell_nothing(const struct reader *reader, const char *words)
{
    _cleanup_text_ struct text line = {0};

    text_append_string(&line, words);
    append_asked(reader, &line);
    log_note("%s", text_string(&line));
    return 1;
}
