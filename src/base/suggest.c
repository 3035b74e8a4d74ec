#include "base/suggest.h"

#include "base/macros.h"

/* Longer than any key; longer words are no slips. */
#define WORD_MAX 48
/* Below this, the start of a name says too little. */
#define START_MIN 5
/* Behind every whole name that is near enough. */
#define START_RANK 4

/* One row of the table, out of the two before it. Two letters in the wrong order are one edit. */
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

/* The number of edits from `a` to `b`, and to the nearest start of `b`. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length,
                            size_t *ret_to_start)
{
    size_t rows[3][WORD_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++)
        fill_row(a, i, b, b_length, rows);
    const size_t *row = rows[a_length % 3];

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
