/* UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then randomness, so that they sort by time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UUID_TEXT_SIZE 37

/* 0, or a negative errno if the kernel gives no randomness. */
int uuid_make(uint64_t real_ns, char ret_text[static UUID_TEXT_SIZE]);

/* Whether the text is a UUID of any kind, in upper or lower case. */
bool uuid_looks_like(const char *text);
