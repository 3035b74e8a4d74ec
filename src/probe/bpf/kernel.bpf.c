/* All BPF programs of sonde as one object: they share the tags of processes and the code that
 * counts memory. No program changes an observed process. */
#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_helpers.h>

#include "probe/bpf/call-samples.bpf.h"
#include "probe/bpf/lifecycle.bpf.h"
#include "probe/bpf/processes.bpf.h"

char LICENSE[] SEC("license") = "GPL";
