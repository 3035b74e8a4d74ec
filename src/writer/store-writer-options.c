#include "writer/store-writer-options.h"

#include <errno.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/record-copy.h"

/* A full disk stays so until somebody makes room: seconds are soon enough, and cost nothing. */
#define RETRY_NS (5 * NS_PER_SEC)
/* The store has waited itself before it says so. */
#define RETRY_BUSY_NS   (NS_PER_SEC / 4)
#define RETAIN_EVERY_NS (3600 * NS_PER_SEC)

/* What a person waits for without wondering, when a command has ended. */
#define STOP_NS (3 * NS_PER_SEC)

static int copy_words(const struct text_list *words, struct arena *arena,
                      const struct text_list **ret)
{
    const struct text_list none = {0};
    struct text_list *copy = arena_alloc(arena, sizeof(*copy));

    if (!copy || text_list_copy(words ? words : &none, arena, copy) < 0)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

static void set_default(uint64_t *value, uint64_t usual)
{
    if (!*value)
        *value = usual;
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
    if (copy_words(options->store.redact, arena, &copy.store.redact) < 0)
        return -ENOMEM;
    set_default(&copy.pace.retry_ns, RETRY_NS);
    set_default(&copy.pace.retry_busy_ns, RETRY_BUSY_NS);
    set_default(&copy.pace.retain_every_ns, RETAIN_EVERY_NS);
    set_default(&copy.pace.stop_ns, STOP_NS);
    *ret = copy;
    return 0;
}
