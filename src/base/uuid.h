/* UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then random bits, so that ids sort by time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UUID_TEXT_SIZE 37

/* Makes a new id with the time `real_ns`. Returns 0, or a negative errno if getrandom() fails. */
int uuid_make(uint64_t real_ns, char ret_text[static UUID_TEXT_SIZE]);

/* Returns whether the text has the form of a UUID (any version, upper or lower case). */
bool uuid_looks_like(const char *text);
