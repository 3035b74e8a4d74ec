/* For the tests of the kernel collector against the real kernel: a probe. It takes CAP_BPF and
 * CAP_PERFMON to have one. */
#pragma once

#include "unit.h"

#include "probe/bpf/kernel-probe.h"

extern struct kernel_probe *probe;

/* For cmocka: before the first test, and after the last. */
int kernel_world_set_up(void **state);
int kernel_world_tear_down(void **state);

/* Whether it can be had; or says why the tests are skipped. */
bool kernel_world_is_allowed(void);
