#include "probe/bpf/process-peaks.h"

#include <unistd.h>

#include "base/macros.h"
#include "model/field.h"

/* A value of the map: the peak as of the first exec in pages, plus PEAK_OFFSET, or SHARES_MEMORY
 * until the exec. A fork that was not reported has no value until an exec. */
#define SHARES_MEMORY 1
#define PEAK_OFFSET   2

void process_peaks_done(struct process_peaks *peaks)
{
    map_done(&peaks->foreign);
}

static void put(struct process_peaks *peaks, pid_t pid, uint64_t value)
{
    if (map_put(&peaks->foreign, (uint64_t)pid, (void *)(uintptr_t)value) < 0)
        map_remove(&peaks->foreign, (uint64_t)pid);
}

static struct known_peak known(uint64_t pages)
{
    return (struct known_peak){.bytes = (int64_t)pages * sysconf(_SC_PAGESIZE)};
}

static struct known_peak missing(uint64_t pages_max)
{
    int64_t bytes = pages_max ? (int64_t)pages_max * sysconf(_SC_PAGESIZE) : INT64_MAX;
    return (struct known_peak){.bytes = INT_UNKNOWN, .missing_bytes = bytes};
}

void process_peaks_forked(struct process_peaks *peaks, pid_t pid, bool shares_memory)
{
    put(peaks, pid, shares_memory ? SHARES_MEMORY : PEAK_OFFSET);
}

void process_peaks_forked_by_sonde(struct process_peaks *peaks, pid_t pid)
{
    map_remove(&peaks->foreign, (uint64_t)pid);
}

struct known_peak process_peaks_before_exec(struct process_peaks *peaks, pid_t pid,
                                            uint64_t former_pages)
{
    uint64_t foreign = (uintptr_t)map_get(&peaks->foreign, (uint64_t)pid);

    if (foreign >= PEAK_OFFSET)
        return former_pages > foreign - PEAK_OFFSET ? known(former_pages) : missing(former_pages);
    put(peaks, pid, former_pages + PEAK_OFFSET);
    return (struct known_peak){.bytes = INT_UNKNOWN}; /* no program of its own yet */
}

struct known_peak process_peaks_at_exit(struct process_peaks *peaks, pid_t pid,
                                        uint64_t former_pages, int64_t peak_pages)
{
    uint64_t foreign = (uintptr_t)map_remove(&peaks->foreign, (uint64_t)pid);
    bool is_own = foreign >= PEAK_OFFSET && former_pages > foreign - PEAK_OFFSET;

    if (foreign == SHARES_MEMORY)
        return missing(peak_pages > (int64_t)former_pages ? (uint64_t)peak_pages : former_pages);
    if (peak_pages >= 0)
        return known(is_own ? MAX(former_pages, (uint64_t)peak_pages) : (uint64_t)peak_pages);
    /* Linux before 6.16. Without a report of the fork there is nothing to compare with. */
    return former_pages && (is_own || !foreign) ? known(former_pages) : missing(former_pages);
}
