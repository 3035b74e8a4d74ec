/* Loads libbpf on demand. If it were linked, every `sonde run` would take 3 ms longer, and every
 * user would need a library that most verbs never use. */
#pragma once

/* Returns 0, or -ENOENT with the reason as a static string. The library stays loaded. */
int libbpf_load(const char **ret_reason);
