#include "writer/store-writer-options.h"

#include <errno.h>

#include "base/clock.h"
#include "base/macros.h"

/* A full disk stays full until a person makes room: retrying every few seconds is enough. */
#define RETRY_NS (5 * NS_PER_SEC)
/* Short, because the store itself has waited before it returns -EBUSY. */
#define RETRY_BUSY_NS   (NS_PER_SEC / 4)
#define RETAIN_EVERY_NS (3600 * NS_PER_SEC)

/* A delay that is acceptable at the end of a command. */
#define STOP_NS (3 * NS_PER_SEC)

static void set_default(uint64_t *value, uint64_t standard)
{
    if (!*value)
        *value = standard;
}

int store_writer_options_copy(const struct store_writer_options *options, struct arena *arena,
                              struct store_writer_options *ret)
{
    struct store_writer_options copy = *options;
    const char **texts[] = {&copy.store.path, &copy.store.jsonl_path, &copy.store.host,
                            &copy.store.boot_id, &copy.store.collector};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (*texts[i] && !(*texts[i] = arena_strdup(arena, *texts[i])))
            return -ENOMEM;
    set_default(&copy.pace.retry_ns, RETRY_NS);
    set_default(&copy.pace.retry_busy_ns, RETRY_BUSY_NS);
    set_default(&copy.pace.retain_every_ns, RETAIN_EVERY_NS);
    set_default(&copy.pace.stop_ns, STOP_NS);
    *ret = copy;
    return 0;
}
