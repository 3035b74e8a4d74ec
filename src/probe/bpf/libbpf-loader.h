/* Loads libbpf on demand. If it were linked, every `sonde run` would take 3 ms longer, and every
 * user would need a library that most verbs never use. */
#pragma once

#include <stddef.h>

/* Returns 0, or -ENOENT with the reason as text. The library stays loaded. */
int libbpf_load(char *reason, size_t reason_size);
