#include "client/params.h"

#include "model/field.h"

void params_write_text(struct json_writer *json, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    json_write_key(json, key);
    json_write_string(json, value);
}

void params_write_int(struct json_writer *json, const char *key, int64_t value)
{
    if (!int_is_known(value))
        return;
    json_write_key(json, key);
    json_write_int(json, value);
}

void params_write_real(struct json_writer *json, const char *key, double value)
{
    if (!real_is_known(value))
        return;
    json_write_key(json, key);
    json_write_real(json, value);
}

void params_write_true(struct json_writer *json, const char *key)
{
    json_write_key(json, key);
    json_write_bool(json, true);
}
