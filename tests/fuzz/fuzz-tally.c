/* {"read":30.88,"write":2}: text that the fast parser accepts gives the same result as the JSON
 * decoder. */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "model/record-json.h"
#include "model/tally-parse.h"

struct holder {
    struct tally_list tally;
};

static void check_same(const char *json, const struct tally_list *plain, struct arena *arena)
{
    const struct field field = FIELD_OF(struct holder, tally, FIELD_TALLY, .required = true);
    const struct record record = {
        .name = "Holder", .size = sizeof(struct holder), .fields = &field, .field_count = 1};
    _cleanup_text_ struct text text = {0};
    struct decode_error error = {""};
    struct holder holder;

    text_printf(&text, "{\"tally\":%s}", json);
    assert(record_decode(&record, text.bytes, text.length, arena, &holder, &error) == 0);
    assert(holder.tally.count == plain->count && plain->items);
    for (size_t i = 0; i < plain->count; i++) {
        assert(strcmp(holder.tally.items[i].name, plain->items[i].name) == 0);
        assert(holder.tally.items[i].value == plain->items[i].value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_free_ char *json = strndup((const char *)bytes, length);
    _cleanup_(arena_done) struct arena arena = {0};
    struct tally_list list;

    if (!json)
        return 0;
    if (tally_parse_plain(json, &arena, &list) == 1)
        check_same(json, &list, &arena);
    return 0;
}
