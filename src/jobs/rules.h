/* The rules of the configuration, compiled: which job a process belongs to that nobody registered.
 * Pure: facts come in (the rules say which they need), a name goes out. */
#pragma once

#include "model/job-rule.h"
#include "model/process-facts.h"

struct rules;

/* 0, -EINVAL (a pattern that does not compile, which the configuration should have refused) or
 * -ENOMEM. The list must outlive it. */
int rules_new(const struct job_rule_list *list, struct rules **ret);
void rules_free(struct rules *rules);
void rules_freep(struct rules **rules);

/* What must be read of a process to tell; nothing, if there are no rules. */
const struct fact_request *rules_request(const struct rules *rules);

/* The job_id by the first rule that matches, checked as job_id_check() does (a template may give
 * anything). 1, 0 if none matches, or -ENOMEM. `ret_job_id` has JOB_ID_MAX_BYTES + 1. */
int rules_match(const struct rules *rules, const struct process_facts *facts, char *ret_job_id);
