#include "base/suggest.h"

#include "base/macros.h"

/* Longer than any key. Longer words get no suggestion. */
#define WORD_MAX 48
/* A shorter word matches too many prefixes. */
#define PREFIX_MIN 5
/* Ranks a prefix match after every whole name that is close enough. */
#define PREFIX_RANK 4

/* Fills one row of the distance table from the two before it. Two swapped letters are one edit. */
static void fill_row(const char *a, size_t i, const char *b, size_t b_length,
                     size_t rows[3][WORD_MAX + 1])
{
    const size_t *above = rows[(i - 1) % 3], *twice_above = rows[(i + 1) % 3];
    size_t *row = rows[i % 3];

    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
        size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
        size_t shifted = MIN(above[j], row[j - 1]) + 1;
        row[j] = MIN(replaced, shifted);
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN(row[j], twice_above[j - 2] + 1);
    }
}

/* Returns the number of edits from `a` to `b`, and to the closest prefix of `b`. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length,
                            size_t *ret_to_prefix)
{
    size_t rows[3][WORD_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++)
        fill_row(a, i, b, b_length, rows);
    const size_t *row = rows[a_length % 3];

    *ret_to_prefix = row[0];
    for (size_t j = 1; j <= b_length; j++)
        *ret_to_prefix = MIN(*ret_to_prefix, row[j]);
    return row[b_length];
}

void suggestion_consider(struct suggestion *suggestion, const char *word, size_t word_length,
                         const char *candidate, size_t candidate_length)
{
    if (word_length > WORD_MAX || candidate_length > WORD_MAX)
        return;

    size_t allowed = candidate_length >= 8 ? 3 : 2, to_prefix;
    size_t distance = edit_distance(word, word_length, candidate, candidate_length, &to_prefix);
    /* Any two short words are few edits apart: half of the candidate must match. */
    if (distance > allowed || distance * 2 > candidate_length) {
        if (word_length < PREFIX_MIN || to_prefix > 1)
            return;
        distance = PREFIX_RANK + to_prefix;
    }
    if (suggestion->name && distance >= suggestion->distance)
        return;
    *suggestion = (struct suggestion){candidate, candidate_length, distance};
}
