/* For the tests of job membership: a registry with one run, and functions that query it. */
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
/* Registers a process for the fixture's run. */
void add(struct fixture *f, pid_t pid);
/* Places a process that was read; returns its run, or NULL. */
struct run *place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start);

/* The run and the step of a known process. */
struct run *run_of(struct fixture *f, pid_t pid);
int64_t sheet_of(struct fixture *f, pid_t pid);
