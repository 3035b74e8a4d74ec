#include "cli/command-type.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/load-config.h"
#include "model/redact.h"

void command_type_format(char *const *argv, const struct text_list *words,
                         char into[static JOB_ID_MAX_BYTES + 1])
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_free_ char *cwd = getcwd(NULL, 0); /* NULL if the directory was deleted */
    const char *shown[] = {argv[0], NULL, NULL};
    size_t first = 1;

    /* The type has only the program and its first word that is no option: there may be many
     * arguments, and the command waits. */
    while (argv[first] && (argv[first][0] == '-' || !argv[first][0]))
        first++;
    shown[1] = argv[first];
    if (shown[1] && redact_argument(words, argv[first - 1], &arena, &shown[1]) < 0)
        shown[1] = NULL;
    job_type_format(shown, cwd, into, JOB_ID_MAX_BYTES + 1);
    redact_buffer(words, into, JOB_ID_MAX_BYTES + 1); /* the directory, too, and the program */
}

int command_type_redact(const struct command_context *context, const char *type,
                        char into[static JOB_ID_MAX_BYTES + 1])
{
    _cleanup_config_ struct config *config = NULL;

    int r = load_config(context, &config);
    if (r < 0)
        return r;
    snprintf(into, JOB_ID_MAX_BYTES + 1, "%s", type);
    redact_buffer(&config->redact, into, JOB_ID_MAX_BYTES + 1);
    return 0;
}
