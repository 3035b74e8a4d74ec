/* ResourceSample and ResourceSummary: what libsonde gives. The structs are the public ones. */
#pragma once

#include "model/field.h"
#include "sonde/sonde.h"

extern const struct record resource_sample_record;
extern const struct record resource_summary_record;
