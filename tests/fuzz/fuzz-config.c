/* A configuration file: every error names the file, and what loads can be shown and loaded again,
 * and is then the same. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config-schema.h"
#include "config/config.h"

static void check_errors(const struct config_errors *errors, int error)
{
    assert(error == -ENOMEM || errors->count > 0);
    assert(errors->count <= CONFIG_ERRORS_MAX);
    for (size_t i = 0; i < errors->count; i++) {
        assert(strncmp(errors->lines[i], "f:", 2) == 0);
        for (const char *at = errors->lines[i]; *at; at++)
            assert((unsigned char)*at >= 0x20 && *at != 0x7F);
    }
}

/* The origins are left out: they differ between a file and its copy. */
static void show_values(const struct config *config, struct text *out)
{
    struct config copy = *config;
    unsigned no_origins[CONFIG_KEYS_MAX] = {0};

    copy.origin_lines = no_origins;
    config_show(&copy, out);
    assert(text_error(out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_config_ struct config *config = NULL;
    _cleanup_config_ struct config *again = NULL;
    _cleanup_text_ struct text first = {0}, second = {0}, json = {0};

    setenv("HOME", "/home/fuzz", 1);
    int r = config_load_bytes("f", (const char *)bytes, length, &config, &errors);
    if (r < 0) {
        check_errors(&errors, r);
        return 0;
    }
    config_show_json(config, &json);
    assert(text_error(&json) == 0);
    show_values(config, &first);
    assert(config_load_bytes("f", first.bytes, first.length, &again, &errors) == 0);
    show_values(again, &second);
    assert(strcmp(first.bytes, second.bytes) == 0);
    return 0;
}
