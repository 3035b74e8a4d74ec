#include "client/list-decode.h"

#include "base/text.h"

int list_decode(const struct record *record, const char *json, size_t length, struct arena *arena,
                struct any_list *ret, struct decode_error *error)
{
    struct {
        struct any_list items;
    } answer;
    const struct field field = {
        .name = "list", .type = FIELD_RECORDS, .record = record, .required = true};
    const struct record wrapping = {
        .name = "List", .size = sizeof(answer), .fields = &field, .field_count = 1};
    _cleanup_text_ struct text wrapped = {0};

    text_append_string(&wrapped, "{\"list\":");
    text_append(&wrapped, json, length);
    text_append_char(&wrapped, '}');
    int r = text_error(&wrapped);
    if (r == 0)
        r = record_decode(&wrapping, wrapped.bytes, wrapped.length, arena, &answer, error);
    if (r == 0)
        *ret = answer.items;
    return r;
}
