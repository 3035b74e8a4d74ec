/* A rule of `jobs.rules`: assigns unregistered processes to a job, and names the job. */
#pragma once

#include "base/text.h"
#include "model/field.h"

enum job_rule_kind {
    JOB_RULE_WORKSPACE, /* `pattern` is a directory: in the command line, or at or above the cwd */
    JOB_RULE_ENV,       /* all variables of `names` are set */
    JOB_RULE_CGROUP,    /* `pattern` is a POSIX extended regular expression on the cgroup's path */
    JOB_RULE_COMMAND,   /* the same on the command line */
};

struct job_rule {
    const char *job_id; /* template, see job_rule_expand() */
    enum job_rule_kind kind;
    const char *pattern;    /* NULL for JOB_RULE_ENV */
    struct text_list names; /* for JOB_RULE_ENV */
};

struct job_rule_list LIST(struct job_rule);

/* Returns the key of a matcher in the configuration: workspace, env, cgroup or command. */
const char *job_rule_kind_name(enum job_rule_kind kind);

/* Returns the value of a placeholder, or NULL if it has none. */
typedef const char *job_rule_lookup(void *data, const char *name, size_t length);

/* Appends the template to `out` with each `{NAME}` replaced: by a variable for env, by a group for
 * cgroup and command (`{1}`; `{0}` is the whole match). Returns 0, -EINVAL (unmatched brace, empty
 * name), -ENOENT (the lookup returned NULL) or -ENOMEM. */
int job_rule_expand(const char *job_id, job_rule_lookup *lookup, void *data, struct text *out);
