/* One pass from left to right over names and the "://" of URLs. Each secret is a span of the text,
 * and the scan continues after it, so a name inside a value is part of the secret.
 *
 * Each span starts after an ASCII character and ends before one, or at the end of the text, so
 * UTF-8 stays valid. A second pass must find the same spans. No decision therefore depends on the
 * content of a span: looking back stops at the last span. Looking ahead for the end of a URL's
 * authority is safe too, because a span there extends to the end of the word. */
#include "model/redact.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

static const char stars[] = "***";

#define BLANKS " \t\n\r\v\f"

struct span {
    size_t start, end;
};

struct scan {
    const char *text;
    const struct text_list *words;
    size_t at;
    /* The end of the last value and of the quote that contained it. The scan never looks back
     * beyond it, because a second pass sees different text there. */
    size_t floor;
    char enclosing;
    size_t authority_end; /* of the last URL: the position after its host and user */
};

static bool is_in(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool is_blank(char c)
{
    return is_in(c, BLANKS);
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_divider(char c)
{
    return c == '-' || c == '_' || c == '.';
}

/* Characters of names; all non-ASCII characters count. */
static bool is_name_char(char c)
{
    return is_lower(c) || is_upper(c) || is_digit(c) || is_divider(c) || (unsigned char)c >= 0x80;
}

static size_t skip_blanks(const char *text, size_t at)
{
    return at + strspn(text + at, BLANKS);
}

static bool is_hidden(const char *value, size_t length)
{
    return length == strlen(stars) && memcmp(value, stars, length) == 0;
}

/* ---- names ---- */

static char to_lower(char c)
{
    return is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static bool equals_in_any_case(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (to_lower(a[i]) != to_lower(b[i]))
            return false;
    return true;
}

/* Returns whether a part of the name ends before name[at]; `at` is not 0. */
static bool part_ends_at(const char *name, size_t length, size_t at)
{
    if (at == length || is_divider(name[at]) || is_digit(name[at]))
        return true;
    if (!is_upper(name[at]))
        return false;
    /* accessToken|Id, and API|Key, where the last capital belongs to the next part */
    bool starts_small_part = at + 1 < length && is_lower(name[at + 1]);
    return !is_upper(name[at - 1]) || starts_small_part;
}

static bool part_starts_at(const char *name, size_t length, size_t at)
{
    return at == 0 || is_divider(name[at - 1]) || is_digit(name[at - 1]) ||
           part_ends_at(name, length, at);
}

/* Words that ordinary names contain, too: bypass, compat, oauth-url, pass-through, cookie-jar,
 * credential.helper. */
static bool is_narrow(const char *word)
{
    static const char *const words[] = {"pass",   "pwd",    "auth",       "pat",
                                        "cookie", "bearer", "credential", "credentials"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(word) == strlen(words[i]) && equals_in_any_case(word, words[i], strlen(word)))
            return true;
    return false;
}

/* Returns whether name[start..end] is the last part of the name; numbers after it do not count. */
static bool is_last_part(const char *name, size_t length, size_t start, size_t end)
{
    if (!part_starts_at(name, length, start))
        return false;
    while (end < length && (is_digit(name[end]) || is_divider(name[end])))
        end++;
    return end == length;
}

static bool name_matches(const char *name, size_t length, const struct text_list *words)
{
    for (size_t end = 1; end <= length; end++) {
        if (!part_ends_at(name, length, end))
            continue;
        for (size_t i = 0; i < words->count; i++) {
            const char *word = words->items[i];
            size_t word_length = strlen(word), start = end - word_length;
            if (word_length && word_length <= end &&
                equals_in_any_case(name + start, word, word_length) &&
                (!is_narrow(word) || is_last_part(name, length, start, end)))
                return true;
        }
    }
    return false;
}

/* ---- values ---- */

/* The context of a value, which decides where it ends. */
struct value_place {
    const char *stops;  /* characters that end it, in addition to a blank, outside of quotes */
    char enclosing;     /* the quote that encloses name and value together, or NUL */
    bool may_be_a_list; /* JSON: a list or an object is one value */
    bool is_in_url;
};

static size_t find_plain_end(const char *text, size_t at, const struct value_place *place)
{
    size_t start = at;

    while (text[at] && !is_blank(text[at]) && !is_in(text[at], place->stops) &&
           !(place->enclosing && text[at] == place->enclosing))
        at++;
    /* In \"token=abc\" the backslash belongs to the quote. */
    if (place->enclosing && text[at] == place->enclosing)
        while (at > start && text[at - 1] == '\\')
            at--;
    return at;
}

/* Finds the quote that closes one opened with `backslashes` before it, or the end of the text. `at`
 * is the first character inside. Returns the position of the closing quote's own backslashes. */
static size_t find_closing(const char *text, size_t at, char quote, size_t backslashes)
{
    size_t run = 0;

    for (; text[at]; at++) {
        if (text[at] == '\\') {
            run++;
            continue;
        }
        if (text[at] == quote && (backslashes ? run == backslashes : run % 2 == 0))
            return at - backslashes;
        run = 0;
    }
    return at;
}

/* Returns the position after the bracket that closes the one at `at`, or the end of the text. */
static size_t skip_list(const char *text, size_t at)
{
    size_t depth = 0;

    for (; text[at]; at++) {
        if (is_in(text[at], "[{"))
            depth++;
        else if (is_in(text[at], "]}") && --depth == 0)
            return at + 1;
        else if (is_quote(text[at])) {
            at = find_closing(text, at + 1, text[at], 0);
            if (!text[at])
                break;
        }
    }
    return at;
}

/* Returns whether the value continues directly after a closing quote, as in 'it'\''s' or "a"b. */
static bool goes_on(char next, char quote, size_t backslashes)
{
    if (!next || is_blank(next) || is_in(next, ",;:)}]&|<>"))
        return false;
    if (is_quote(next) || next == '\\')
        return backslashes == 0 && (next == quote || next == '\\');
    return true;
}

/* Returns the value at `at`, which may be empty. */
static struct span find_extent(const char *text, size_t at, const struct value_place *place)
{
    size_t backslashes = strspn(text + at, "\\");
    char quote = text[at + backslashes];

    if (place->may_be_a_list && is_in(text[at], "[{"))
        return (struct span){at, find_plain_end(text, skip_list(text, at), place)};
    if (!is_quote(quote) || quote == place->enclosing)
        return (struct span){at, find_plain_end(text, at, place)};

    size_t inside = at + backslashes + 1;
    size_t closing = find_closing(text, inside, quote, backslashes);
    if (text[closing]) {
        size_t behind = closing + backslashes + 1;
        if (goes_on(text[behind], quote, backslashes))
            return (struct span){at, find_plain_end(text, behind, place)};
    }
    return (struct span){inside, closing};
}

/* Extends a value that is a list of cookies: `a=b; c=d`. */
static size_t skip_cookies(const char *text, struct span value, const struct value_place *place)
{
    size_t start = value.start, end = value.end;

    while (end > start && text[end - 1] == ';' && memchr(text + start, '=', end - start)) {
        size_t next = skip_blanks(text, end), next_end = find_plain_end(text, next, place);
        if (next == end || !memchr(text + next, '=', next_end - next))
            break;
        start = next;
        end = next_end;
    }
    return end;
}

/* ---- separators between a name and its value ---- */

struct name {
    size_t start, end;
    char before; /* the character before it; NUL at the start of the text */
};

/* Returns the quote that encloses the word at `at`, or NUL. It searches only before the first
 * parameter, because a later quote may be part of a secret. */
static char find_word_quote(const struct scan *scan, size_t at)
{
    size_t start = at;

    while (start > scan->floor && !is_blank(scan->text[start - 1]))
        start--;
    size_t end = start + strcspn(scan->text + start, "?&#");
    for (size_t i = MIN(end, at); i > start; i--)
        if (is_quote(scan->text[i - 1]))
            return scan->text[i - 1];
    return start == scan->floor ? scan->enclosing : '\0';
}

/* Returns the position after the scheme of credentials, as in `Authorization: Bearer V`, and after
 * the blanks that follow it; `at` if there is no scheme, or nothing after it. */
static size_t skip_scheme(const char *text, size_t at)
{
    static const char *const schemes[] = {"Bearer", "Basic",     "Token",
                                          "Digest", "Negotiate", "NTLM"};
    size_t length = strcspn(text + at, BLANKS), value = skip_blanks(text, at + length);

    if (value == at + length || !text[value] || text[value] == '-')
        return at;
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        if (strlen(schemes[i]) == length && equals_in_any_case(text + at, schemes[i], length))
            return value;
    return at;
}

/* A shell's variable. Elsewhere, as in a connection string, PWD is a password. */
static bool is_working_directory(const struct scan *scan, const struct name *name)
{
    return name->end - name->start == 3 && strncmp(scan->text + name->start, "PWD", 3) == 0 &&
           (!name->before || is_blank(name->before));
}

/* `Bearer V` needs no name before it. */
static bool is_bearer(const struct scan *scan, const struct name *name)
{
    return name->end - name->start == 6 && strncmp(scan->text + name->start, "Bearer", 6) == 0;
}

/* Finds the start and the context of the value of a name. */
static bool find_start(const struct scan *scan, const struct name *name,
                       struct value_place *ret_place, size_t *ret)
{
    const char *text = scan->text;
    size_t at = name->end, quote_at = at + strspn(text + at, "\\");
    bool is_quoted_name = is_quote(name->before) && text[quote_at] == name->before;

    if (is_quoted_name)
        at = quote_at + 1;
    else if (is_quote(name->before))
        ret_place->enclosing = name->before;
    at += text[at] == ']'; /* user[password]=V */

    size_t separator = skip_blanks(text, at);
    bool is_apart = separator > at;
    if (text[separator] == '=') {
        at = separator + 1;
        at += text[at] == '>'; /* Ruby, PHP */
        /* Without a blank before the separator, `password= x` is an empty value followed by another
         * word. */
        *ret = is_apart || is_quoted_name ? skip_blanks(text, at) : at;
        if (text[name->start] != '-') /* --auth=basic is the name of a scheme only */
            *ret = skip_scheme(text, *ret);
    } else if (text[separator] == ':') {
        /* Excludes URLs, tests/test_key.py::test_a, and paths and images such as /run/key:ro. */
        if (text[separator + 1] == ':' || strncmp(text + separator, "://", 3) == 0 ||
            name->before == '/')
            return false;
        *ret = skip_scheme(text, skip_blanks(text, separator + 1));
    } else {
        *ret = separator;
        return is_apart && (text[name->start] == '-' || is_bearer(scan, name)) &&
               text[separator] != '-' && name->before != '/';
    }

    ret_place->may_be_a_list = is_quoted_name;
    if (is_quoted_name)
        ret_place->stops = ",}]";
    /* In sqlserver://host;password=V&W the value is V&W. */
    bool is_in_authority = *ret <= scan->authority_end;
    ret_place->is_in_url = is_in_authority || is_in(name->before, "?&#");
    if (ret_place->is_in_url) {
        ret_place->stops = is_in_authority ? "" : "&#";
        ret_place->enclosing = find_word_quote(scan, name->start);
    }
    return true;
}

static bool find_value(struct scan *scan, const struct name *name, struct span *ret)
{
    struct value_place place = {.stops = ""};
    size_t at;

    if (!find_start(scan, name, &place, &at))
        return false;
    *ret = find_extent(scan->text, at, &place);
    if (ret->end == ret->start)
        return false;
    if (!place.is_in_url)
        ret->end = skip_cookies(scan->text, *ret, &place);
    scan->enclosing = place.enclosing;
    return true;
}

/* ---- URLs ---- */

/* Returns whether the text between a host's colon and `end` can be a port: digits, or a placeholder
 * of a shell or a template. */
static bool looks_like_a_port(const char *at, const char *end)
{
    return at + strspn(at, "0123456789") >= end || is_in(*at, "${%<");
}

/* Finds the end of a password that has no @ directly after it: the line was truncated, or the
 * password contains a slash and the @ comes later. */
static const char *find_late_end(const char *password, const char *end)
{
    if (*end != '/' || is_hidden(password, (size_t)(end - password)))
        return end;
    const char *at_sign = memrchr(end, '@', strcspn(end, "?#\"'" BLANKS));
    return at_sign ? at_sign : end;
}

/* In \"https://host\" the backslash belongs to the quote. */
static const char *find_authority_end(const char *at)
{
    const char *end = at + strcspn(at, "/?#\"'" BLANKS);

    if (is_quote(*end))
        while (end > at && end[-1] == '\\')
            end--;
    return end;
}

/* Finds the password of the URL whose "://" is at scan->at. */
static bool find_url_password(struct scan *scan, struct span *ret)
{
    const char *text = scan->text, *authority = text + scan->at + strlen("://");
    const char *end = find_authority_end(authority);
    const char *at_sign = memrchr(authority, '@', (size_t)(end - authority));
    const char *colon = memchr(authority, ':', (size_t)((at_sign ? at_sign : end) - authority));

    scan->authority_end = (size_t)(end - text);
    if (!colon)
        return false;
    if (!at_sign) {
        if (is_blank(*end) || *authority == '[' || looks_like_a_port(colon + 1, end))
            return false;
        at_sign = find_late_end(colon + 1, end);
        scan->authority_end = (size_t)(find_authority_end(at_sign) - text);
    }
    *ret = (struct span){(size_t)(colon + 1 - text), (size_t)(at_sign - text)};
    scan->enclosing = find_word_quote(scan, scan->at);
    return true;
}

/* ---- the text ---- */

/* Reads the name at scan->at, and finds its value if it is a secret. */
static bool read_name(struct scan *scan, struct span *ret)
{
    struct name name = {.start = scan->at, .before = scan->at ? scan->text[scan->at - 1] : '\0'};

    while (is_name_char(scan->text[scan->at]))
        scan->at++;
    name.end = scan->at;
    return name_matches(scan->text + name.start, name.end - name.start, scan->words) &&
           !is_working_directory(scan, &name) && find_value(scan, &name, ret);
}

/* Finds the next secret of a name or a URL, redacted or not, and moves the scan after it, so that
 * the name in https://token:abc@host is not examined again. */
static bool find_next(struct scan *scan, struct span *ret)
{
    bool is_found = false;

    while (!is_found && scan->text[scan->at]) {
        if (is_name_char(scan->text[scan->at]))
            is_found = read_name(scan, ret);
        else if (strncmp(scan->text + scan->at, "://", 3) == 0 && find_url_password(scan, ret))
            is_found = true;
        else
            scan->at++;
    }
    if (is_found)
        scan->at = scan->floor = ret->end;
    return is_found;
}

int redact_text(const char *text, const struct text_list *words, struct text *out)
{
    struct scan scan = {.text = text, .words = words};
    size_t copied = 0;
    struct span span;

    if (!words->count)
        return 0;
    while (find_next(&scan, &span)) {
        size_t length = span.end - span.start;
        if (!length || is_hidden(text + span.start, length))
            continue;
        text_append(out, text + copied, span.start - copied);
        text_append_string(out, stars);
        copied = span.end;
    }
    if (!copied)
        return 0;
    text_append_string(out, text + copied);
    int r = text_error(out);
    return r < 0 ? r : 1;
}

int redact_replace(const struct text_list *words, struct arena *arena, const char **text)
{
    _cleanup_text_ struct text hidden = {0};

    if (!*text || !words)
        return 0;
    int r = redact_text(*text, words, &hidden);
    if (r <= 0)
        return r;
    char *copy = arena_strdup(arena, text_string(&hidden));
    if (!copy)
        return -ENOMEM;
    *text = copy;
    return 0;
}

void redact_buffer(const struct text_list *words, char *text, size_t size)
{
    _cleanup_text_ struct text hidden = {0};

    int r = words ? redact_text(text, words, &hidden) : 0;
    if (r < 0)
        text[0] = '\0';
    else if (r > 0)
        utf8_clean(text, size, hidden.bytes, hidden.length);
}

/* ---- records ---- */

static int redact_field(const struct text_list *words, const struct field *field,
                        struct arena *arena, void *value)
{
    const struct any_list *list = value;
    int r = 0;

    switch (field->type) {
    case FIELD_TEXT:
        if (field->holds_command && (r = redact_replace(words, arena, value)) < 0)
            *(const char **)value = NULL;
        return r;
    case FIELD_RECORD:
    case FIELD_INLINE: return redact_record(words, field->record, arena, value);
    case FIELD_RECORDS:
    case FIELD_KEYED:
        for (size_t i = 0; i < list->count; i++)
            if (redact_record(words, field->record, arena,
                              (char *)list->items + i * field->record->size) < 0)
                r = -ENOMEM;
        return r;
    default: return 0;
    }
}

int redact_record(const struct text_list *words, const struct record *record, struct arena *arena,
                  void *object)
{
    int r = 0;

    for (size_t i = 0; i < record->field_count; i++)
        if (redact_field(words, &record->fields[i], arena,
                         (char *)object + record->fields[i].offset) < 0)
            r = -ENOMEM;
    return r;
}

/* ---- arguments ---- */

int redact_argument(const struct text_list *words, const char *before, struct arena *arena,
                    const char **argument)
{
    const char *plain = *argument;
    _cleanup_text_ struct text both = {0}, hidden = {0};

    if (!words)
        return 0;
    int r = redact_replace(words, arena, argument);
    if (r < 0 || *argument != plain)
        return r;
    text_printf(&both, "%s %s", before, plain);
    r = text_error(&both);
    if (r == 0)
        r = redact_text(text_string(&both), words, &hidden);
    if (r <= 0)
        return r;
    size_t length = strlen(plain);
    bool is_kept = hidden.length > length &&
                   strcmp(hidden.bytes + hidden.length - length, plain) == 0 &&
                   hidden.bytes[hidden.length - length - 1] == ' ';
    if (!is_kept)
        *argument = stars;
    return 0;
}

/* ---- the words in force ---- */

static bool is_same_list(const struct text_list *a, const struct text_list *b)
{
    size_t count = a ? a->count : 0;

    if (count != (b ? b->count : 0))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

bool redaction_set(struct redaction *redaction, const struct text_list *words)
{
    bool is_other = !is_same_list(redaction->words, words);

    redaction->words = words;
    redaction->version += is_other;
    return is_other;
}
