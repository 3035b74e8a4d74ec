/* "Did you mean …?": the name that is nearest to a mistyped one. */
#pragma once

#include <stddef.h>

struct suggestion {
    const char *name; /* NULL while none is near enough */
    size_t length;
    size_t distance;
};

/* Takes `candidate` for the suggestion if it is nearer to `word` than what is there, and near
 * enough to be a slip: 2 edits, 3 in words of 8 characters and more, or its start with 1 edit
 * (`intervall` for `interval_seconds`). */
void suggestion_consider(struct suggestion *suggestion, const char *word, size_t word_length,
                         const char *candidate, size_t candidate_length);
