/* Checks the size and structure of a pattern before glibc compiles it, because regcomp() has no
 * limits:
 * - It expands counted repetitions and needs memory quadratic in the result.
 * - A repeated part that may match nothing, as in `(a*)*`, makes cycles of empty steps, which take
 * exponential time: `a*{,9}{,9}*` takes hours.
 * - Back-references make matching exponential.
 * The measured size may be too large but never too small. glibc reports syntax errors. */
#include "model/rule-pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* 512 atoms need at most 8 MB and 0.1 s; 2048 need 86 MB and 2 s. */
#define ATOMS_MAX 512

struct shape {
    double atoms; /* with all repetitions expanded */
    bool nullable;
};

struct measure {
    const char *at;
    const char *problem; /* NULL: no error */
};

static struct shape measure_alternatives(struct measure *measure, bool in_group);

/* Skips a bracket expression, in which `]` may come first and in classes such as `[:alpha:]`. If it
 * has no end, skips only its first byte. */
static void skip_bracket(struct measure *measure)
{
    const char *end = measure->at + (measure->at[1] == '^') + 1;

    end += *end == ']';
    for (; *end && *end != ']'; end++)
        if (*end == '[' && end[1] && strchr(":.=", end[1])) {
            const char *class_end = strchr(end + 2, end[1]);
            end = class_end ? class_end : end;
        }
    measure->at = *end ? end + 1 : measure->at + 1;
}

static struct shape measure_escape(struct measure *measure)
{
    char escaped = measure->at[1];

    measure->at += escaped ? 2 : 1;
    if (escaped >= '1' && escaped <= '9')
        measure->problem = "has a back-reference";
    return (struct shape){.atoms = 1, .nullable = escaped && strchr("bB<>`'", escaped)};
}

static struct shape measure_atom(struct measure *measure)
{
    struct shape shape = {.atoms = 1};

    switch (*measure->at) {
    case '(':
        measure->at++;
        shape = measure_alternatives(measure, true);
        shape.atoms++;
        measure->at += *measure->at == ')';
        return shape;
    case '[': skip_bracket(measure); return shape;
    case '\\': return measure_escape(measure);
    case '^':
    case '$': shape.nullable = true; break;
    default: break;
    }
    measure->at++;
    return shape;
}

/* Skips the count at `at` (`*`, `+`, `{2,5}`). Returns how many copies of the atom it makes, and
 * whether zero copies match. */
static double measure_count(struct measure *measure, bool *ret_optional)
{
    const char *at = measure->at++;
    char *end;

    *ret_optional = *at == '*';
    if (*at != '{')
        return *at == '+' ? 2 : 1;

    double from = (double)strtoul(at + 1, &end, 10);
    double to = *end == ',' ? (double)strtoul(end + 1, NULL, 10) : 0;
    measure->at += strspn(measure->at, "0123456789,");
    measure->at += *measure->at == '}';
    *ret_optional = from == 0;
    return MAX(from + 1, to);
}

static struct shape measure_repeated(struct measure *measure)
{
    struct shape shape = measure_atom(measure);

    while (*measure->at && strchr("*+?{", *measure->at)) {
        bool optional = true;
        double copies = 1;

        if (*measure->at == '?') {
            measure->at++;
        } else {
            if (shape.nullable)
                measure->problem = "repeats a part that may be empty";
            copies = measure_count(measure, &optional);
        }
        shape.atoms = shape.atoms * copies + 1;
        shape.nullable = shape.nullable || optional;
    }
    return shape;
}

/* Measures up to the end of the group or of the pattern. */
static struct shape measure_alternatives(struct measure *measure, bool in_group)
{
    struct shape all = {0};
    bool branch_nullable = true;

    for (; *measure->at && !(in_group && *measure->at == ')');) {
        if (*measure->at == '|') {
            all.nullable = all.nullable || branch_nullable;
            all.atoms++;
            branch_nullable = true;
            measure->at++;
            continue;
        }
        struct shape part = measure_repeated(measure);
        all.atoms += part.atoms;
        branch_nullable = branch_nullable && part.nullable;
    }
    all.nullable = all.nullable || branch_nullable;
    return all;
}

static const char *find_problem(const char *pattern)
{
    struct measure measure = {.at = pattern};

    if (!*pattern)
        return "is empty";
    if (strlen(pattern) > RULE_PATTERN_MAX_BYTES)
        return "is longer than 256 bytes";
    struct shape shape = measure_alternatives(&measure, false);
    if (!measure.problem && shape.atoms > ATOMS_MAX)
        return "repeats too often";
    return measure.problem;
}

int rule_pattern_compile(const char *pattern, regex_t *ret, char *reason, size_t reason_size)
{
    const char *problem = find_problem(pattern);
    regex_t regex;

    if (problem) {
        snprintf(reason, reason_size, "%s", problem);
        return -EINVAL;
    }
    int r = regcomp(&regex, pattern, REG_EXTENDED);
    if (r == 0) {
        *ret = regex;
        return 0;
    }
    regerror(r, NULL, reason, reason_size);
    return r == REG_ESPACE ? -ENOMEM : -EINVAL;
}
