/* All programs that sonde runs in the kernel, as one object: they share whose a process is, and how
 * its memory is counted. None of them changes anything for the processes it looks at. */
#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_helpers.h>

#include "probe/bpf/call-samples.bpf.h"
#include "probe/bpf/lifecycle.bpf.h"
#include "probe/bpf/processes.bpf.h"

char LICENSE[] SEC("license") = "GPL";
