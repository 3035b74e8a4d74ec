#include "explain/inline-script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    bool is_quoted; /* the word contains quotes */
    bool has_ended; /* a command ended before the word */
    bool is_or;     /* … by `||` */
};

/* Finds the next word. Returns false at the end of the text. */
static bool scan_word(struct scan *scan)
{
    size_t length = 0;
    char quote = '\0';

    scan->has_ended = scan->is_or = scan->is_quoted = false;
    for (; *scan->at && strchr(" \t\n;&|(){}", *scan->at); scan->at++) {
        scan->has_ended |= strchr("\n;&|", *scan->at) != NULL;
        scan->is_or |= strncmp(scan->at, "||", 2) == 0;
    }
    for (; *scan->at && (quote || !strchr(" \t\n;&|(){}", *scan->at)); scan->at++) {
        if (quote ? *scan->at == quote : strchr("'\"`", *scan->at) != NULL) {
            quote = quote ? '\0' : *scan->at;
            scan->is_quoted = true;
        } else if (length < WORD_MAX - 1) {
            scan->word[length++] = *scan->at;
        }
    }
    scan->word[length] = '\0';
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
    return strcmp(word, "false") == 0 || strcmp(word, "test") == 0 || word[0] == '[' ||
           strcmp(word, "!") == 0 || strcmp(word, "let") == 0 || strcmp(word, "cd") == 0 ||
           strcmp(word, "read") == 0;
}

static enum script_end shell_end(const char *text, const char *program, int64_t status)
{
    struct scan scan = {.at = text};
    bool is_last = false, sets_status = false, is_exit = false;

    while (scan_word(&scan)) {
        bool is_number = is_exit && !scan.has_ended && !scan.is_quoted;
        is_exit =
            !scan.is_quoted && (strcmp(scan.word, "exit") == 0 || strcmp(scan.word, "return") == 0);
        if (is_exit && scan.is_or && is_last)
            return SCRIPT_STOPS;
        if (scan.has_ended)
            is_last = false;
        if (is_number) {
            char *end;
            sets_status = strtoll(scan.word, &end, 10) == status && !*end;
        } else if (is_exit) {
            sets_status = false; /* without a number, it passes the status on */
        } else if (!scan.is_quoted && is_program(scan.word, program)) {
            is_last = true;
            sets_status = false;
        } else if (!scan.is_quoted && !is_last && status == 1 && is_test(scan.word)) {
            sets_status = true;
        }
    }
    if (sets_status)
        return SCRIPT_SETS_STATUS;
    return is_last && !scan.has_ended ? SCRIPT_PASSES_ON : SCRIPT_UNKNOWN;
}

static enum script_end python_end(const char *text, int64_t status)
{
    char call[32];

    snprintf(call, sizeof(call), "exit(%lld)", (long long)status);
    if (strstr(text, call))
        return SCRIPT_SETS_STATUS;
    return status == 1 && strstr(text, "check") ? SCRIPT_STOPS : SCRIPT_UNKNOWN;
}

enum script_end inline_script_end(const char *command, const char *program, int64_t status)
{
    char shell[PROGRAM_MAX_BYTES + 1];
    const char *text = command ? find_text(command) : NULL;

    if (!text || !command_program(command, shell))
        return SCRIPT_UNKNOWN;
    if (strncmp(shell, "python", strlen("python")) == 0)
        return python_end(text, status);
    return strstr(shell, "sh") ? shell_end(text, program, status) : SCRIPT_UNKNOWN;
}
