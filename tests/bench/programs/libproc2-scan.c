/* A snapshot by libproc2, the library of ps and top, as a worker: state, parent, CPU time, RSS,
 * size, threads, start, command line. It does not count descriptors. */
#include <stdlib.h>

#include <libproc2/pids.h>

#include "worker.h"

static struct pids_info *info;

static size_t scan(void *context)
{
    struct pids_fetch *fetched = procps_pids_reap(info, PIDS_FETCH_TASKS_ONLY);

    (void)context;
    return fetched ? (size_t)fetched->counts->total : 0;
}

int main(void)
{
    enum pids_item items[] = {PIDS_ID_PID,  PIDS_STATE,    PIDS_ID_PPID, PIDS_TICS_ALL,
                              PIDS_MEM_RES, PIDS_MEM_VIRT, PIDS_NLWP,    PIDS_TIME_START,
                              PIDS_MEM_SHR, PIDS_CMDLINE};

    if (procps_pids_new(&info, items, sizeof(items) / sizeof(items[0])) < 0) {
        fprintf(stderr, "libproc2-scan: cannot start\n");
        return 1;
    }
    return worker_serve(scan, NULL);
}
