#include "jobs-world.h"

#include <stdio.h>

struct run *add_run(struct registry *registry, const char *name, struct run *parent)
{
    char run_id[UUID_TEXT_SIZE];
    struct run *run = NULL;

    snprintf(run_id, sizeof(run_id), "0197-%s", name);
    assert_int_equal(
        registry_add_run(
            registry,
            &(struct run_options){.run_id = run_id, .job_id = name, .uid = 1000, .parent = parent},
            &run),
        0);
    return run;
}

int jobs_fixture_set_up(void **state)
{
    static struct fixture fixture;

    registry_new(&fixture.registry);
    fixture.run = add_run(fixture.registry, "make-7f3a", NULL);
    *state = &fixture;
    return 0;
}

int jobs_fixture_tear_down(void **state)
{
    registry_free(((struct fixture *)*state)->registry);
    return 0;
}

void add(struct fixture *f, pid_t pid)
{
    assert_int_equal(registry_add(f->registry, f->run, NONE, pid), 0);
}

struct run *place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start)
{
    struct member *member = NULL;
    assert_int_equal(registry_place(registry, pid, ppid, start, &member), 0);
    return member ? member->run : NULL;
}

struct run *run_of(struct fixture *f, pid_t pid)
{
    const struct member *member = registry_find(f->registry, pid);
    return member ? member->run : NULL;
}

int64_t sheet_of(struct fixture *f, pid_t pid)
{
    return registry_find(f->registry, pid)->sheet_num;
}
