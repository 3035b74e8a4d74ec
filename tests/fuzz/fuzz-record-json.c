/* SystemSnapshot from JSON: what decodes can be written and read again, and is then the same. */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/record-json.h"
#include "model/snapshot.h"

static int decode(const char *bytes, size_t length, struct snapshot *snapshot)
{
    struct decode_error error = {0};

    int r = record_decode(&snapshot_record, bytes, length, &snapshot->arena, snapshot, &error);
    assert(r == 0 || memchr(error.text, '\0', sizeof(error.text)));
    return r;
}

static void encode(const struct snapshot *snapshot, struct text *out)
{
    struct json_writer json = {.out = out};

    record_encode(&snapshot_record, snapshot, &json);
    assert(text_error(out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    _cleanup_(snapshot_freep) struct snapshot *again = snapshot_new();
    _cleanup_text_ struct text first = {0};
    _cleanup_text_ struct text second = {0};

    if (!snapshot || !again || decode((const char *)bytes, length, snapshot) < 0)
        return 0;
    encode(snapshot, &first);
    assert(decode(first.bytes, first.length, again) == 0);
    encode(again, &second);
    assert(strcmp(first.bytes, second.bytes) == 0);
    return 0;
}
