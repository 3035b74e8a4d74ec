/* libbpf, loaded when it is first needed: linked, it would cost every `sonde run` three
 * milliseconds and its user a library that most verbs never touch. */
#pragma once

/* 0, or -ENOENT with the reason in words. The library stays. */
int libbpf_load(const char **ret_reason);
