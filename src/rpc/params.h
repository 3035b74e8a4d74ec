/* Parameters as they came, checked against the table of their method. */
#pragma once

#include <jansson.h>

#include "base/arena.h"
#include "base/text.h"
#include "rpc/codec.h"

/* Of what came, an error message shows this much. */
#define RPC_FOUND_COLUMNS 60

/* `params` is an object, or NULL. `values` holds as many as the method has parameters, none given.
 * 0, -EINVAL with the problem in words, or -ENOMEM. */
int rpc_params_decode(const struct rpc_method *method, json_t *params, struct arena *arena,
                      struct rpc_value *values, struct text *problem);
