/* FNV-1a, a fast hash of bytes. Anyone can construct collisions: callers must compare the texts
 * too. The function must not change, because databases store its results. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Adds bytes to a hash that begins with HASH_START. */
static inline uint64_t hash_add(uint64_t hash, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint64_t hash_bytes(const char *bytes, size_t length)
{
    return hash_add(HASH_START, bytes, length);
}

static inline uint64_t hash_text(const char *text)
{
    return hash_bytes(text, strlen(text));
}
