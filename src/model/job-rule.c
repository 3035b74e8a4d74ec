#include "model/job-rule.h"

#include <errno.h>
#include <string.h>

const char *job_rule_kind_name(enum job_rule_kind kind)
{
    static const char *const names[] = {
        [JOB_RULE_WORKSPACE] = "workspace",
        [JOB_RULE_ENV] = "env",
        [JOB_RULE_CGROUP] = "cgroup",
        [JOB_RULE_COMMAND] = "command",
    };
    return names[kind];
}

int job_rule_expand(const char *job_id, job_rule_lookup *lookup, void *data, struct text *out)
{
    const char *at = job_id;

    for (;;) {
        size_t literal = strcspn(at, "{}");
        text_append(out, at, literal);
        at += literal;
        if (!*at)
            return text_error(out);

        size_t length = *at == '{' ? strcspn(at + 1, "{}") : 0;
        if (!length || at[1 + length] != '}')
            return -EINVAL;
        const char *value = lookup(data, at + 1, length);
        if (!value)
            return -ENOENT;
        text_append_string(out, value);
        at += length + 2;
    }
}
