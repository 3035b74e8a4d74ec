/* Before glibc sees a pattern, its shape is measured here, because regcomp() has no limits:
 * - It writes out what is repeated by a count and takes memory by the square of that.
 * - A repeated part that may match nothing, as `(a*)*`, makes cycles of empty steps, through which
 *   it walks in exponential time: `a*{,9}{,9}*` takes hours.
 * - Back-references make matching exponential.
 * What is measured may be too large but not too small; syntax errors are left to glibc. */
#include "model/rule-pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* 512 atoms take 8 MB and 0.1 s at worst, 2048 already 86 MB and 2 s. */
#define ATOMS_MAX 512

struct shape {
    double atoms; /* with all repetitions written out */
    bool nullable;
};

struct measure {
    const char *at;
    const char *problem; /* NULL while there is none */
};

static struct shape measure_alternatives(struct measure *measure, bool in_group);

/* Steps over a bracket expression, in which `]` may stand first and in classes such as `[:alpha:]`.
 * If it has no end, over its first byte. */
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

/* Steps over the count at `at` (`*`, `+`, `{2,5}`); how many copies of the atom it makes, and
 * whether none is enough. */
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

/* Up to the end of the group or of the pattern. */
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
