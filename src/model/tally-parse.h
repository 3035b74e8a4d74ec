/* {"read":30.88,"write":2} as sonde's own writer has it, without the detour of a JSON library.
 *
 * Our own, because an analysis reads one for each of a hundred thousand runs: 0.6 µs for twelve
 * names, against 8 µs by jansson, which would be all of the second that it may take. What is not in
 * that plain form is left to record_decode(), which is the judge of what is right. */
#pragma once

#include "model/field.h"

/* 1; 0: it is not plain (blanks, escapes, signs, exponents, more than 15 digits, names beyond ASCII
 * or that come twice, more than TALLY_PLAIN_MAX of them), or it is wrong; or -ENOMEM. */
int tally_parse_plain(const char *json, struct arena *arena, struct tally_list *ret);

#define TALLY_PLAIN_MAX 64
