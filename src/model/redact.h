/* Redacts secrets in command lines: `--password=hunter2` becomes `--password=***`.
 *
 * The name before a value identifies a secret. A name matches if one of its parts ends in one of
 * the configured words, in any case. Parts end at - _ . a digit and the capitals of camelCase:
 * `api-key`, `API_KEY`, `apikey`, `accessToken`, `password2` match, but `keyboard` and `max_tokens`
 * do not. The value follows the name:
 *
 *   --password=V  PASSWORD=V  -Dsecret=V  password = V       up to the next blank
 *   --password V  -password V                                unless V starts with -
 *   password: V   "password": "V"   {\"password\": \"V\"}    JSON numbers and lists too
 *   password='V W'                                           in quotes up to the closing one
 *   ?token=V&x=1                                             in a query up to the next parameter
 *   https://user:V@host                                      for any configured words
 *
 * A command line is its arguments joined with blanks. A value that contains a blank, without
 * quotes, looks like two arguments, and only the first is redacted. If the end of a value is
 * unclear, more is redacted rather than less. Truncated lines are safe: a value without its end
 * extends to the end of the text. */
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "model/field.h"

/* Appends `text` to `out` with `***` for each secret. Returns 1, 0 if there is no secret (nothing
 * is then appended or allocated), or -ENOMEM. Valid UTF-8 stays valid; a secret of one or two bytes
 * grows to three. Redacting a redacted text changes nothing. Without words nothing is redacted. */
int redact_text(const char *text, const struct text_list *words, struct text *out);

/* Replaces *text with a redacted copy in `arena` if it contains secrets. *text may be NULL and
 * `words` may be empty. Returns 0, or -ENOMEM with *text unchanged. */
int redact_replace(const struct text_list *words, struct arena *arena, const char **text);
