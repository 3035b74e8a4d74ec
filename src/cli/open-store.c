#include "cli/open-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/load-config.h"
#include "query/query.h"

int open_store(const struct command *command, const struct command_context *context,
               struct store_reader **ret)
{
    _cleanup_config_ struct config *config = NULL;
    struct store_error error = {""};

    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    int r = resolve_paths(context, config);
    if (r == -ENOENT) {
        log_error("%s: nowhere to look for data; set HOME, or give --state-dir DIR", command->name);
        return 1;
    }
    if (r == 0)
        r = store_reader_open(config->storage_path, ret, &error);
    if (r == 0)
        return 0;
    if (r == -ENOENT)
        log_error("%s: no data yet in '%s'; run a job with: sonde run -- CMD", command->name,
                  config->storage_path);
    else
        log_error("%s: %s", command->name, error.text[0] ? error.text : strerror(-r));
    return 1;
}

int store_failed(const struct command *command, const struct store_reader *reader, int error)
{
    const char *words = store_reader_error(reader);

    log_error("%s: %s", command->name, words && *words ? words : strerror(-error));
    return 1;
}

int store_has_no_job(const struct command *command, struct store_reader *reader, const char *name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *similar = NULL;
    size_t length = strcspn(name, "~");

    int r = query_similar_job(reader, name, &arena, &similar);
    if (r < 0)
        return store_failed(command, reader, r);
    if (similar && strlen(similar) == length && strncmp(name, similar, length) == 0)
        log_error("%s: there is no run '%s'; 'sonde jobs --job %s' lists what there is",
                  command->name, name, similar);
    else if (similar)
        log_error("%s: there is no job '%s'; did you mean '%s'?", command->name, name, similar);
    else
        log_error("%s: there is no job '%s'; 'sonde jobs' lists them", command->name, name);
    return 1;
}
