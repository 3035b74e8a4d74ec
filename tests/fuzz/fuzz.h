/* A fuzz target is one function; libFuzzer drives it (-Dfuzz=true, clang), and without libFuzzer
 * replay.c runs it over every file of its corpus, as a normal test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
