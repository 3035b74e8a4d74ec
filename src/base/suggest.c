#include "base/suggest.h"

#include "base/macros.h"

/* Longer than any key; longer words are no slips. */
#define WORD_MAX 48
/* Below this, the start of a name says too little. */
#define START_MIN 5
/* Behind every whole name that is near enough. */
#define START_RANK 4

/* Levenshtein's distance, one row of the table at a time, from `a` to `b` and to the nearest start
 * of `b`. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length,
                            size_t *ret_to_start)
{
    size_t row[WORD_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t shifted = MIN(row[j], row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = MIN(replaced, shifted);
        }
    }

    *ret_to_start = row[0];
    for (size_t j = 1; j <= b_length; j++)
        *ret_to_start = MIN(*ret_to_start, row[j]);
    return row[b_length];
}

void suggestion_consider(struct suggestion *suggestion, const char *word, size_t word_length,
                         const char *candidate, size_t candidate_length)
{
    if (word_length > WORD_MAX || candidate_length > WORD_MAX)
        return;

    size_t allowed = candidate_length >= 8 ? 3 : 2, to_start;
    size_t distance = edit_distance(word, word_length, candidate, candidate_length, &to_start);
    /* A short word is a few edits from any other: half of it must be right. */
    if (distance > allowed || distance * 2 > candidate_length) {
        if (word_length < START_MIN || to_start > 1)
            return;
        distance = START_RANK + to_start;
    }
    if (suggestion->name && distance >= suggestion->distance)
        return;
    *suggestion = (struct suggestion){candidate, candidate_length, distance};
}
