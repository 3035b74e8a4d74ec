#include "explain/inline-script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/program-kind.h"
#include "model/process.h"

/* Longer words are cut: none that matters here is as long. */
#define WORD_MAX 64

/* Returns the text after -c (or -ec, -xc, …); NULL: there is none, or it may be cut. */
static const char *find_text(const char *command)
{
    const char *word = strchr(command, ' ');

    if (strlen(command) >= COMMAND_MAX_BYTES)
        return NULL;
    for (; word && word[1] == '-'; word = strchr(word + 1, ' ')) {
        size_t length = strcspn(word + 1, " ");
        if (word[length] == 'c' && word[2] != '-')
            return word[length + 1] ? word + length + 2 : NULL;
        if (word[length] == 'o' && word[2] != '-' && word[length + 1]) /* -o pipefail */
            word += length + 1;
    }
    return NULL;
}

/* A scan of a script for a shell, from word to word. */
struct scan {
    const char *at;
    char word[WORD_MAX];
    bool is_quoted;  /* the word contains quotes */
    bool has_ended;  /* a command ended before the word */
    bool is_or;      /* … by `||`; it may be within braces */
    bool is_command; /* the word is in the position of a command, not an argument */
};

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

/* Returns whether a word is followed by a command if it is in the position of one itself. */
static bool leads_command(const char *word)
{
    static const char *const words[] = {"{",    "!",     "if",    "then", "elif",
                                        "else", "while", "until", "do",   "command",
                                        "env",  "nice",  "nohup", "time", NULL};
    size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return is_one_of(word, words) || (length > 0 && word[length] == '=');
}

/* Returns whether a character outside of quotes ends a word; the & of `2>&1` and `&>` does not. */
static bool ends_word(const struct scan *scan, const char *text)
{
    const char *at = scan->at;
    bool is_redirection = *at == '&' && (at[1] == '>' || (at > text && strchr("<>", at[-1])));

    return strchr(" \t\n;&|()", *at) && !is_redirection;
}

/* Finds the next word. Returns false at the end of the text. */
static bool scan_word(struct scan *scan, const char *text)
{
    bool leads =
        scan->at == text || (scan->is_command && !scan->is_quoted && leads_command(scan->word));
    bool is_or = scan->is_or && strcmp(scan->word, "{") == 0;
    size_t length = 0;
    char quote = '\0';

    scan->has_ended = scan->is_quoted = false;
    for (; *scan->at && (ends_word(scan, text) || *scan->at == '#'); scan->at++) {
        if (*scan->at == '#') { /* a comment */
            scan->at += strcspn(scan->at, "\n") - 1;
            continue;
        }
        scan->has_ended |= strchr("\n;&|", *scan->at) != NULL;
        leads |= strchr("\n;&|()", *scan->at) != NULL;
        is_or |= strncmp(scan->at, "||", 2) == 0;
    }
    for (; *scan->at && (quote || !ends_word(scan, text)); scan->at++) {
        bool is_escape = quote != '\'' && *scan->at == '\\' && scan->at[1];
        scan->at += is_escape;
        scan->is_quoted |= is_escape;
        if (!is_escape && (quote ? *scan->at == quote : strchr("'\"`", *scan->at) != NULL)) {
            quote = quote ? '\0' : *scan->at;
            scan->is_quoted = true;
        } else if (length < WORD_MAX - 1) {
            scan->word[length++] = *scan->at;
        }
    }
    scan->word[length] = '\0';
    scan->is_or = is_or;
    scan->is_command = leads;
    return length > 0 || scan->is_quoted;
}

static bool is_program(const char *word, const char *program)
{
    const char *slash = strrchr(word, '/');

    return program && strcmp(slash ? slash + 1 : word, program) == 0;
}

/* Returns whether the word is a builtin or a keyword that may end with status 1 without a process.
 */
static bool is_test(const char *word)
{
    static const char *const words[] = {"false", "test", "!", "let", "cd", "read", NULL};

    return word[0] == '[' || is_one_of(word, words);
}

/* What a scan has found so far. */
struct findings {
    bool is_last;         /* the program is the last command */
    bool is_negated;      /* the command begins with `!` */
    size_t mentions;      /* of the program, as a command */
    size_t stops;         /* … after which the script ends if it fails */
    bool sets_status;     /* after the last mention */
    bool may_set_earlier; /* before it */
    bool may_jump;        /* commands may run in another order than they are written */
};

/* Considers one word. Returns whether it is an `exit`, which may be followed by a number. */
static bool consider_word(const struct scan *scan, const char *program, int64_t status,
                          struct findings *found)
{
    static const char *const ends[] = {"exit", "return", NULL};
    static const char *const jumps[] = {"while", "until", "for", "trap", "eval", NULL};
    bool is_plain = scan->is_command && !scan->is_quoted;
    bool opens_or = scan->is_or && strcmp(scan->word, "{") == 0;

    if (scan->has_ended && !opens_or)
        found->is_last = found->is_negated = false;
    if (!is_plain)
        return false;
    found->is_negated |= strcmp(scan->word, "!") == 0;
    found->may_jump |= is_one_of(scan->word, jumps);
    if (is_one_of(scan->word, ends)) {
        found->sets_status = false; /* without a number, it passes the status on */
        return true;
    }
    if (is_program(scan->word, program)) {
        found->mentions++;
        found->is_last = !found->is_negated;
        found->may_set_earlier |= found->sets_status;
        found->sets_status = false;
    } else if (status == 1 && is_test(scan->word)) {
        found->sets_status = true;
    }
    return false;
}

/* Returns whether the text runs commands within words, whose statuses do not count. */
static bool has_substitution(const char *text)
{
    return strstr(text, "$(") || strchr(text, '`') || strstr(text, "<(") || strstr(text, ">(");
}

static enum script_end shell_end(const char *text, const char *program, int64_t status)
{
    struct scan scan = {.at = text};
    struct findings found = {.may_jump = strstr(text, "()") != NULL};
    bool is_exit = false, is_stop = false;

    while (scan_word(&scan, text)) {
        bool was_last = found.is_last;
        if (is_exit && !scan.has_ended && !scan.is_quoted) {
            char *end;
            bool is_number = strtoll(scan.word, &end, 10) == status && !*end;
            found.sets_status = is_number;
            /* another number: this is not how it ended */
            found.stops -= is_stop && !is_number && strspn(scan.word, "0123456789") > 0;
        }
        is_exit = consider_word(&scan, program, status, &found);
        is_stop = is_exit && scan.is_or && was_last && strcmp(scan.word, "exit") == 0;
        found.stops += is_stop;
    }
    bool is_clear = !has_substitution(text);
    if (is_clear && found.mentions && found.stops == found.mentions)
        return SCRIPT_STOPS;
    if (found.sets_status || (found.may_set_earlier && (found.may_jump || !is_clear)))
        return SCRIPT_SETS_STATUS;
    return is_clear && !found.may_jump && found.is_last && !scan.has_ended ? SCRIPT_PASSES_ON
                                                                           : SCRIPT_UNKNOWN;
}

/* Counts the mentions of `what` that are no part of a longer name. */
static size_t count_names(const char *text, const char *what)
{
    size_t count = 0, length = strlen(what);

    for (const char *at = text; (at = strstr(at, what)); at += length) {
        bool begins = at == text || (!isalnum((unsigned char)at[-1]) && !strchr("_-", at[-1]));
        bool ends = ispunct((unsigned char)what[length - 1]) ||
                    (!isalnum((unsigned char)at[length]) && strspn(at + length, "_-") == 0);
        count += begins && ends;
    }
    return count;
}

/* Returns whether Python ends because a program that the text starts has failed: it checks all of
 * them and handles no exception. */
static bool is_checked(const char *text, const char *program)
{
    static const char *const others[] = {"open(",  "system(", "getoutput", "getstatusoutput",
                                         "spawn",  "fork",    "exec(",     "try",
                                         "except", "finally", "suppress",  "hook",
                                         "atexit", "#",       NULL};
    size_t checks = count_names(text, "check_call(") + count_names(text, "check_output(");
    size_t runs = count_names(text, "run(");
    bool is_named =
        program &&
        (count_names(text, program) || (strstr(text, "shell=True") && program_is_shell(program)) ||
         (strstr(text, "sys.executable") && strncmp(program, "python", 6) == 0));

    for (size_t i = 0; others[i]; i++)
        if (strstr(text, others[i]))
            return false;
    return is_named && checks + runs > 0 && !count_names(text, "call(") &&
           runs == count_names(text, "check=True");
}

static enum script_end python_end(const char *text, const char *program, int64_t status)
{
    char call[32];

    if (status == 1 && is_checked(text, program))
        return SCRIPT_STOPS;
    snprintf(call, sizeof(call), "xit(%lld)", (long long)status); /* also SystemExit */
    return strstr(text, call) ? SCRIPT_SETS_STATUS : SCRIPT_UNKNOWN;
}

enum script_end inline_script_end(const char *command, const char *program, int64_t status)
{
    char shell[PROGRAM_MAX_BYTES + 1];
    const char *text = command ? find_text(command) : NULL;

    if (!text || !command_program(command, shell))
        return SCRIPT_UNKNOWN;
    if (strncmp(shell, "python", strlen("python")) == 0)
        return python_end(text, program, status);
    return program_is_shell(command) ? shell_end(text, program, status) : SCRIPT_UNKNOWN;
}
