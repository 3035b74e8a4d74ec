#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* The first block is small, because many arenas hold one or two strings and there may be thousands
 * of arenas. Each further block is twice as large, so that a snapshot of 200 processes needs few.
 */
#define FIRST_BLOCK_BYTES 512
#define BLOCK_MAX_BYTES   16384

struct arena_block {
    struct arena_block *older;
    size_t used;
    size_t capacity;
    _Alignas(max_align_t) unsigned char bytes[];
};

static struct arena_block *new_block(struct arena *arena, size_t size)
{
    size_t usual = arena->newest ? MIN(2 * arena->newest->capacity, (size_t)BLOCK_MAX_BYTES)
                                 : (size_t)FIRST_BLOCK_BYTES;
    size_t capacity = MAX(size, usual);

    if (capacity > SIZE_MAX - sizeof(struct arena_block))
        return NULL;

    struct arena_block *block = malloc(sizeof(*block) + capacity);
    if (!block)
        return NULL;

    block->older = arena->newest;
    block->used = 0;
    block->capacity = capacity;
    arena->newest = block;
    return block;
}

static void *allocate(struct arena *arena, size_t size, size_t alignment)
{
    struct arena_block *block = arena->newest;
    size_t start = block ? (block->used + alignment - 1) & ~(alignment - 1) : 0;

    if (!block || start > block->capacity || size > block->capacity - start) {
        block = new_block(arena, size);
        if (!block)
            return NULL;
        start = 0;
    }

    block->used = start + size;
    return block->bytes + start;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return allocate(arena, size, _Alignof(max_align_t));
}

char *arena_copy(struct arena *arena, const char *text, size_t length)
{
    if (length == SIZE_MAX)
        return NULL;

    char *copy = allocate(arena, length + 1, 1);
    if (!copy)
        return NULL;

    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_copy(arena, text, strlen(text));
}

size_t arena_bytes(const struct arena *arena)
{
    size_t bytes = 0;

    for (const struct arena_block *block = arena->newest; block; block = block->older)
        bytes += sizeof(*block) + block->capacity;
    return bytes;
}

static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *older = block->older;
        free(block);
        block = older;
    }
}

void arena_reset(struct arena *arena)
{
    if (!arena->newest)
        return;

    free_blocks(arena->newest->older);
    arena->newest->older = NULL;
    arena->newest->used = 0;
}

void arena_done(struct arena *arena)
{
    free_blocks(arena->newest);
    arena->newest = NULL;
}
