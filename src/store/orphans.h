/* Reads the runs that have lost their writer: see store_read_orphaned(). */
#pragma once

#include "store/schema.h"

/* `lock_fd` is for session_is_alive(). Call it within a transaction. Returns 0 or a negative errno.
 */
int orphans_query(struct database *database, const struct schema *schema, int lock_fd,
                  const char *host, const char *boot_id, struct arena *arena,
                  struct orphaned_run_list *ret);
