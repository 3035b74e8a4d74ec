/* ResourceSummary from JSON: what decodes can be written and read again, and is then the same; a
 * rejection has a message. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "sonde/sonde.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct sonde_summary summary, again;
    struct sonde_error error = {{0}};
    char *first, *second;

    int r = sonde_summary_from_json((const char *)bytes, length, &summary, &error);
    if (r < 0) {
        assert(r == -EBADMSG || r == -ENOMEM);
        assert(error.text[0] && memchr(error.text, '\0', sizeof(error.text)));
        return 0;
    }
    assert(sonde_summary_to_json(&summary, &first) == 0);
    assert(sonde_summary_from_json(first, strlen(first), &again, NULL) == 0);
    assert(sonde_summary_to_json(&again, &second) == 0);
    assert(strcmp(first, second) == 0);
    sonde_free(first);
    sonde_free(second);
    return 0;
}
