/* For the tests of who belongs to which job: a registry with one run in it, and questions to it. */
#pragma once

#include "unit.h"

#include "jobs/registry.h"
#include "model/field.h"

/* No step; any user. */
#define NONE INT_UNKNOWN

struct fixture {
    struct registry *registry;
    struct run *run;
};

/* For cmocka: *state is a struct fixture. */
int jobs_fixture_set_up(void **state);
int jobs_fixture_tear_down(void **state);

/* A run of user 1000; `parent` may be NULL. */
struct run *add_run(struct registry *registry, const char *name, struct run *parent);
/* A process is registered for the fixture's run. */
void add(struct fixture *f, pid_t pid);
/* One is read: whose it is, or NULL. */
struct run *place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start);

/* Of a known process. */
struct run *run_of(struct fixture *f, pid_t pid);
int64_t sheet_of(struct fixture *f, pid_t pid);
