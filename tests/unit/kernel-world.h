/* For the tests of the kernel collector against the real kernel: a probe, which needs CAP_BPF and
 * CAP_PERFMON. */
#pragma once

#include "unit.h"

#include "probe/bpf/kernel-probe.h"

extern struct kernel_probe *probe;

/* For cmocka: before the first test, and after the last. */
int kernel_world_set_up(void **state);
int kernel_world_tear_down(void **state);

/* Whether the probe could be opened; otherwise prints why the tests are skipped. */
bool kernel_world_is_allowed(void);
