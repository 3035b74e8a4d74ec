/* Parses {"read":30.88,"write":2} in the form that sonde itself writes, without a JSON library.
 *
 * Code of our own, because an analysis reads one such text for each of 100,000 runs: 0.6 µs for
 * twelve names, compared with 8 µs with jansson, which would use up the whole second that an
 * analysis may take. Other forms are left to record_decode(), which decides whether they are valid.
 */
#pragma once

#include "model/field.h"

/* Returns 1; 0 if the text is not in the plain form (blanks, escapes, signs, exponents, more than
 * 15 digits, non-ASCII or duplicate names, more than TALLY_PLAIN_MAX names) or is invalid; or
 * -ENOMEM. */
int tally_parse_plain(const char *json, struct arena *arena, struct tally_list *ret);

#define TALLY_PLAIN_MAX 64
