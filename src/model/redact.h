/* Redacts secrets in command lines: `--password=hunter2` becomes `--password=***`.
 *
 * The name before a value identifies a secret. A name matches if one of its parts ends in one of
 * the configured words, in any case. Parts end at - _ . a digit and the capitals of camelCase:
 * `api-key`, `API_KEY`, `apikey`, `accessToken`, `password2` match, but `keyboard` and `max_tokens`
 * do not. The words pass, pwd, auth, pat, bearer, cookie, credential and credentials must be the
 * whole last part: `DB_PASS` and `http.cookie` match, but `bypass`, `compat`, `pass-through` and
 * `auth-type` do not, nor does the variable PWD. The value follows the name:
 *
 *   --password=V  PASSWORD=V  -Dsecret=V  password = V       up to the next blank
 *   --password V  -password V                                unless V starts with -
 *   password: V   "password": "V"   {\"password\": \"V\"}    JSON numbers and lists too
 *   password='V W'                                           in quotes up to the closing one
 *   ?token=V&x=1                                             in a query up to the next parameter
 *   https://user:V@host                                      for any configured words
 *   Authorization: Bearer V   Bearer V   AUTH=Basic V        after the scheme
 *   Cookie: a=V; b=V                                         all cookies
 *
 * A command line is its arguments joined with blanks. A value that contains a blank, without
 * quotes, looks like two arguments, and only the first is redacted. If the end of a value is
 * unclear, more is redacted rather than less. Truncated lines are safe: a value without its end
 * extends to the end of the text. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/field.h"

/* Appends `text` to `out` with `***` for each secret. Returns 1, 0 if there is no secret (nothing
 * is then appended or allocated), or -ENOMEM. Valid UTF-8 stays valid; a secret of one or two bytes
 * grows to three. Redacting a redacted text changes nothing. Without words nothing is redacted. */
int redact_text(const char *text, const struct text_list *words, struct text *out);

/* For the next functions, `words` may be empty or NULL: nothing is redacted. */

/* Replaces *text with a redacted copy in `arena` if it contains secrets. *text may be NULL. Returns
 * 0, or -ENOMEM with *text unchanged. */
int redact_replace(const struct text_list *words, struct arena *arena, const char **text);

/* Redacts a text in its buffer of `size` bytes. A result that does not fit is cut at a character
 * boundary. Without memory the text becomes empty. */
void redact_buffer(const struct text_list *words, char *text, size_t size);

/* Redacts all texts of an object that hold command lines (see field.h), also those of records in
 * it, whose lists must belong to the caller. Replacements are placed in `arena`. Returns 0, or
 * -ENOMEM: then the texts that could not be redacted are NULL, so that no secret stays. */
int redact_record(const struct text_list *words, const struct record *record, struct arena *arena,
                  void *object);

/* Redacts one argument of a command. The argument `before` it may name the secret: what follows
 * `--password` becomes `***`. Replacements are placed in `arena`. Returns 0, or -ENOMEM with
 * *argument unchanged. */
int redact_argument(const struct text_list *words, const char *before, struct arena *arena,
                    const char **argument);

/* The words in force. The version changes with them, so that a cached text is redacted anew only
 * then. A zero-initialised struct is valid: nothing is redacted. */
struct redaction {
    const struct text_list *words; /* borrowed; NULL: none */
    unsigned version;
};

/* Replaces the words; the previous ones must still be valid. Returns whether they differ. */
bool redaction_set(struct redaction *redaction, const struct text_list *words);
