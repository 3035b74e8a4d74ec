/* Measures the memory of the processes of a run with shared pages counted once, from their page
 * tables (`sonde run --pss`). This stalls the processes, so it is done only at new peaks, and for
 * at most a tenth of the time. */
#pragma once

#include "jobs/registry.h"
#include "sample/ledger.h"

struct memory_reader {
    uint64_t next_ns; /* not before this time */
    uint64_t growth;  /* of all processes when they were last measured */
};

struct measured_run {
    int proc_fd; /* of the proc filesystem */
    const struct registry *registry;
    const struct run_node *node;
};

/* Measures the memory of the run if the last tick may be a new peak, and gives it to the ledger. If
 * a process cannot be read, or they change their memory meanwhile, the interval of the ledger
 * remains. */
void memory_reader_measure(struct memory_reader *reader, const struct measured_run *run,
                           struct ledger *ledger);
