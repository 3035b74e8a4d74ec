/* What a writer is told when it starts, as its own: whole, and with all that was left out. */
#pragma once

#include "writer/store-writer.h"

/* All that it points to is placed in `arena`; a pace of 0 becomes the usual one. 0 or -ENOMEM. */
int store_writer_options_copy(const struct store_writer_options *options, struct arena *arena,
                              struct store_writer_options *ret);
