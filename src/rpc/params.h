/* Decodes the parameters of a request and checks them against the method's table. */
#pragma once

#include <jansson.h>

#include "base/arena.h"
#include "base/text.h"
#include "rpc/codec.h"

/* Width of a value in an error message. */
#define RPC_FOUND_COLUMNS 60

/* Checks and decodes `params` (an object, or NULL) into the request, whose values are all marked as
 * not given. `arena` owns the record, texts and lists. Returns 0; -EINVAL, with a message appended
 * to `problem`; or -ENOMEM. */
int rpc_params_decode(const struct rpc_method *method, json_t *params, struct arena *arena,
                      struct rpc_request *request, struct text *problem);
