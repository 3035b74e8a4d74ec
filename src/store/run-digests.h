/* Reads ended runs for correlation and estimates: see store_visit_digests(). */
#pragma once

#include "store/schema.h"

/* Call it within a transaction. Returns 0 or a negative errno. */
int run_digests_visit(struct database *database, const struct schema *schema,
                      const struct digest_filter *filter, digest_fn visit, void *context);
