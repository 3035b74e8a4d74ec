/* The generated skeleton of kernel.bpf.c, with the types that it needs. */
#pragma once

#include <bpf/libbpf.h>

#include "probe/bpf/kernel-records.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "probe/bpf/kernel.skel.h"
#pragma GCC diagnostic pop
