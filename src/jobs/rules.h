/* The compiled job rules of the configuration, which assign unregistered processes to jobs. Pure:
 * the input are facts about a process (the rules state which they need), the output is a job id. */
#pragma once

#include "model/job-rule.h"
#include "model/process-facts.h"

struct rules;

/* Returns 0, -EINVAL (a pattern does not compile; the configuration should have rejected it) or
 * -ENOMEM. The list must outlive the rules. */
int rules_new(const struct job_rule_list *list, struct rules **ret);
void rules_free(struct rules *rules);
void rules_freep(struct rules **rules);

/* Returns the facts that rules_match() needs; none if there are no rules. */
const struct fact_request *rules_request(const struct rules *rules);

/* Returns 1 and the job id of the first rule that matches and whose template gives a valid id, 0 if
 * there is none, or -ENOMEM. `ret_job_id` has room for JOB_ID_MAX_BYTES + 1 bytes. */
int rules_match(const struct rules *rules, const struct process_facts *facts, char *ret_job_id);
