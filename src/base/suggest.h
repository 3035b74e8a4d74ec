/* "Did you mean …?": finds the name closest to a mistyped one. */
#pragma once

#include <stddef.h>

struct suggestion {
    const char *name; /* NULL while no candidate is close enough; the candidate's own bytes */
    size_t length;
    size_t distance;
};

/* Makes `candidate` the suggestion if it is closer to `word` than the present one and close enough
 * to be a typing error: at most 2 edits, 3 for candidates of 8 characters or more, or 1 edit from a
 * prefix of the candidate (`intervall` for `interval_seconds`). */
void suggestion_consider(struct suggestion *suggestion, const char *word, size_t word_length,
                         const char *candidate, size_t candidate_length);
