/* Decodes the parameters of a request and checks them against the method's table. */
#pragma once

#include <jansson.h>

#include "base/arena.h"
#include "base/text.h"
#include "rpc/codec.h"

/* Width of a value in an error message. */
#define RPC_FOUND_COLUMNS 60

/* `params` is an object, or NULL. `values` has an entry for each parameter of the method, all
 * marked as not given. Returns 0, -EINVAL with the problem as text, or -ENOMEM. */
int rpc_params_decode(const struct rpc_method *method, json_t *params, struct arena *arena,
                      struct rpc_value *values, struct text *problem);
