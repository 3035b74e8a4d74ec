/* Secrets in command lines: `--password=hunter2` is stored as `--password=***`.
 *
 * What gives a value away is the name before it. A name matches if one of its parts ends in one of
 * the words, in any case; parts end at - _ . a digit and the humps of camelCase: `api-key`,
 * `API_KEY`, `apikey`, `accessToken`, `password2`, but not `keyboard` or `max_tokens`. Its value is
 * what follows:
 *
 *   --password=V  PASSWORD=V  -Dsecret=V  password = V       up to the next blank
 *   --password V  -password V                                unless V starts with -
 *   password: V   "password": "V"   {\"password\": \"V\"}    JSON numbers and lists too
 *   password='V W'                                           in quotes up to the closing one
 *   ?token=V&x=1                                             in a query up to the next parameter
 *   https://user:V@host                                      whatever the words
 *
 * A command line is its arguments joined with blanks, so that a value with a blank in it, without
 * quotes, looks like two: only the first word is hidden. Where it is not clear how far a value
 * goes, more is hidden rather than less. A line that was cut is safe: a value without its end goes
 * on to the end of the text. */
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "model/field.h"

/* Appends `text` to `out` with `***` for each secret. 1, 0 if there is none (nothing is appended or
 * allocated then) or -ENOMEM. Valid UTF-8 stays so; a secret of one or two bytes grows to three.
 * What was redacted once does not change any more. Without words nothing is hidden at all. */
int redact_text(const char *text, const struct text_list *words, struct text *out);

/* Replaces *text by a copy in `arena` that hides the secrets, if there are any in it. NULL texts
 * and no words are fine. 0 or -ENOMEM, with *text as it was. */
int redact_replace(const struct text_list *words, struct arena *arena, const char **text);
