#include "cli/command-type.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "model/redact.h"

void command_type_format(char *const *argv, const struct text_list *words,
                         char into[static JOB_ID_MAX_BYTES + 1])
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_free_ char *cwd = getcwd(NULL, 0); /* NULL if the directory was deleted */
    const char *const program[] = {argv[0], NULL};
    const char *const *shown = program;
    const char **redacted;

    if (redact_arguments(words, argv, &arena, &redacted) == 0)
        shown = redacted;
    job_type_format(shown, cwd, into, JOB_ID_MAX_BYTES + 1);
}
