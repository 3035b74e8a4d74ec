/* Reads what the machine used in a range of time: see store_read_machine(). */
#pragma once

#include "model/machine-use.h"
#include "store/schema.h"

int machine_query(struct database *database, const struct schema *schema, double since,
                  double until, size_t top, struct arena *arena, struct machine_use *ret);
