/* The writer's own copy of its options, with defaults filled in. */
#pragma once

#include "writer/store-writer.h"

/* All texts are placed in `arena`; a pace of 0 becomes the default. Returns 0 or -ENOMEM. */
int store_writer_options_copy(const struct store_writer_options *options, struct arena *arena,
                              struct store_writer_options *ret);
