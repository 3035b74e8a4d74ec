/* Returns the parameters of a request, for handlers. */
#include <string.h>

#include "rpc/codec.h"

const struct rpc_value *rpc_value(const struct rpc_request *request, const char *name)
{
    const struct rpc_method *method = request->method;

    for (size_t i = 0; method && i < method->param_count; i++)
        if (strcmp(method->params[i].name, name) == 0)
            return request->values[i].is_given ? &request->values[i] : NULL;
    return NULL;
}

const char *rpc_text(const struct rpc_request *request, const char *name)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->text : NULL;
}

int64_t rpc_int(const struct rpc_request *request, const char *name, int64_t otherwise)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->integer : otherwise;
}

double rpc_real(const struct rpc_request *request, const char *name, double otherwise)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->real : otherwise;
}

bool rpc_bool(const struct rpc_request *request, const char *name, bool otherwise)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->boolean : otherwise;
}

int rpc_enum(const struct rpc_request *request, const char *name, int otherwise)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->enumerator : otherwise;
}

unsigned rpc_enums(const struct rpc_request *request, const char *name)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->enumerators : 0;
}

struct any_list rpc_records(const struct rpc_request *request, const char *name)
{
    const struct rpc_value *value = rpc_value(request, name);
    return value ? value->records : (struct any_list){0};
}
