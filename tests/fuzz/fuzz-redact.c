/* Secrets in command lines: valid text stays valid, unchanged text allocates nothing, and a second
 * pass changes nothing. */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "model/redact.h"

static void check(const char *text, const struct text_list *words)
{
    _cleanup_text_ struct text once = {0};
    _cleanup_text_ struct text twice = {0};

    int r = redact_text(text, words, &once);
    assert(r == 0 || r == 1);
    if (r == 0) {
        assert(!once.bytes);
        return;
    }
    assert(strcmp(text, once.bytes) != 0);
    assert(!utf8_valid(text, strlen(text)) || utf8_valid(once.bytes, once.length));
    assert(redact_text(once.bytes, words, &twice) == 0);
}

/* The first line is an additional name of a secret. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_free_ char *text = strndup((const char *)bytes, length);
    const char *items[] = {"token", "password", "secret", "key", ""};
    struct text_list words = {items, sizeof(items) / sizeof(items[0])};

    if (!text)
        return 0;
    char *line = strchr(text, '\n');
    if (line) {
        *line++ = '\0';
        items[4] = text;
    }
    check(line ? line : text, &words);
    return 0;
}
