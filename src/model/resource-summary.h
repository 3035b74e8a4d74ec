/* ResourceSample and ResourceSummary, the results of libsonde. The structs are those of the public
 * header. */
#pragma once

#include "model/field.h"
#include "sonde/sonde.h"

extern const struct record resource_sample_record;
extern const struct record resource_summary_record;
