#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config-load.h"

/* Sets one key to its default with the code that reads files, so that a default outside its own
 * range is detected. */
static int apply_fallback(struct config_apply *apply, const struct config_key *key)
{
    _cleanup_(arena_done) struct arena nodes = {0};
    struct config_node scalar = {.text = key->fallback};
    struct config_node *node = &scalar;
    int r = 0;

    if (!key->fallback)
        return 0; /* a path that depends on the state directory */
    scalar.length = strlen(key->fallback);
    if (key->type == CONFIG_WORDS || key->type == CONFIG_RULES)
        r = config_yaml_parse(apply->file, key->fallback, scalar.length, &nodes, &node,
                              apply->errors);
    if (r == 0)
        config_apply_leaf(apply, key, node);
    return r < 0 ? r : apply->error;
}

static int apply_fallbacks(struct config *config)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    struct config_apply apply = {.file = "default", .config = config, .errors = &errors};
    int r = 0;

    for (size_t i = 0; i < config_key_count && r == 0; i++)
        r = apply_fallback(&apply, &config_keys[i]);
    if (r == 0 && (errors.count || errors.error))
        r = -EINVAL;
    return r;
}

struct config *config_new(void)
{
    _cleanup_config_ struct config *config = calloc(1, sizeof(*config));
    if (!config)
        return NULL;

    size_t size = config_key_count * sizeof(*config->origin_lines);
    config->origin_lines = arena_alloc(&config->arena, size);
    if (!config->origin_lines)
        return NULL;
    memset(config->origin_lines, 0, size);
    if (apply_fallbacks(config) < 0)
        return NULL;
    return TAKE_PTR(config);
}

void config_free(struct config *config)
{
    if (!config)
        return;
    arena_done(&config->arena);
    free(config);
}

static int load_nodes(struct config *config, const char *bytes, size_t length,
                      struct config_errors *errors)
{
    _cleanup_(arena_done) struct arena nodes = {0};
    struct config_apply apply = {.file = config->file, .config = config, .errors = errors};
    struct config_node *root;

    int r = config_yaml_parse(config->file, bytes, length, &nodes, &root, errors);
    if (r < 0)
        return r;
    if (root)
        config_apply_root(&apply, root);
    return apply.error;
}

int config_load_bytes(const char *name, const char *bytes, size_t length, struct config **ret,
                      struct config_errors *errors)
{
    size_t errors_before = errors->count + errors->left_out;
    _cleanup_config_ struct config *config = config_new();
    if (!config)
        return -ENOMEM;

    if (length > CONFIG_FILE_MAX_BYTES) {
        config_errors_add(errors, name, 0, 0, "larger than 1 MiB, the limit for a configuration");
        return -EFBIG;
    }
    config->file = arena_strdup(&config->arena, name);
    if (!config->file)
        return -ENOMEM;
    int r = load_nodes(config, bytes, length, errors);
    if (errors->error)
        return errors->error;
    if (r < 0)
        return r;
    if (errors->count + errors->left_out > errors_before)
        return -EINVAL;
    *ret = TAKE_PTR(config);
    return 0;
}

static const char *join(struct config *config, const char *directory, const char *name)
{
    _cleanup_text_ struct text path = {0};

    text_printf(&path, "%s/%s", directory, name);
    return text_error(&path) < 0 ? NULL : arena_copy(&config->arena, path.bytes, path.length);
}

int config_resolve_paths(struct config *config, const char *state_dir)
{
    if (!config->storage_path)
        config->storage_path = join(config, state_dir, "monitor.db");
    if (!config->jsonl_path)
        config->jsonl_path = join(config, state_dir, "monitor.jsonl");
    return config->storage_path && config->jsonl_path ? 0 : -ENOMEM;
}

unsigned config_origin_line(const struct config *config, const char *key)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].path, key) == 0)
            return config->origin_lines[i];
    return 0;
}

/* Copies the value of one key; texts go into the arena of `to`. */
static int copy_value(const struct config_key *key, const struct config *from, struct config *to)
{
    const void *source = (const char *)from + key->offset;
    void *target = (char *)to + key->offset;

    switch (key->type) {
    case CONFIG_BOOL: *(bool *)target = *(const bool *)source; return 0;
    case CONFIG_SWITCH:
    case CONFIG_CHOICE: *(int *)target = *(const int *)source; return 0;
    case CONFIG_INT: *(int64_t *)target = *(const int64_t *)source; return 0;
    case CONFIG_REAL: *(double *)target = *(const double *)source; return 0;
    case CONFIG_PATH: {
        const char *path = *(const char *const *)source;
        char *copy = path ? arena_strdup(&to->arena, path) : NULL;
        *(const char **)target = copy;
        return path && !copy ? -ENOMEM : 0;
    }
    case CONFIG_ACCESS:
    case CONFIG_WORDS:
    case CONFIG_RULES: break;
    }
    return -EOPNOTSUPP; /* no such key needs a restart, which a test checks */
}

int config_keep_restart_values(const struct config *from, struct config *to)
{
    int r = 0;

    for (size_t i = 0; i < config_key_count && r == 0; i++)
        if (config_keys[i].needs_restart)
            r = copy_value(&config_keys[i], from, to);
    return r;
}
