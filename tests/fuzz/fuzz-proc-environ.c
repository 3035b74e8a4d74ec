#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/macros.h"
#include "probe/proc-environ.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const char *names[] = {"A", "PATH", "SLURM_JOB_ID"};
    const struct text_list wanted = {.items = names, .count = ARRAY_SIZE(names)};
    const char *text = (const char *)bytes, *end = text + length;
    struct line values[ARRAY_SIZE(names)];

    proc_environ_parse(text, length, &wanted, values);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct line *value = &values[i];
        size_t before = strlen(names[i]) + 1;

        if (!value->at)
            continue;
        assert(value->at - text >= (ptrdiff_t)before && value->at <= value->end &&
               value->end < end);
        assert(*value->end == '\0');
        assert(!memchr(value->at, '\0', (size_t)(value->end - value->at)));
        assert(memcmp(value->at - before, names[i], before - 1) == 0 && value->at[-1] == '=');
        assert(value->at - before == text || value->at[-(ptrdiff_t)before - 1] == '\0');
    }
    return 0;
}
