/* For the tests of reports: synthetic runs in a fixed time zone. */
#pragma once

#include "unit.h"

#include "model/process.h"
#include "report/job-report.h"
#include "report/style.h"

/* 2026-07-14 14:03:22 UTC. */
#define START 1784037802.0

/* Hostile names of programs. */
#define HOSTILE "x\033[2J\n\r\b\u202e\x9b \xff"

extern const struct report_style plain;
extern const struct report_style coloured;

/* Sets the time zone. For cmocka: before the first test. */
int report_world_set_up(void **state);

/* A run that began at START and whose figures are unknown; and a successful one with all figures.
 * */
struct job_report make_report(int outcome);
struct job_report make_full_report(void);

/* `after`: seconds since START. */
struct process_event make_event(int type, double after, int64_t pid, const char *command);
/* A folded event: `count` events within three seconds. */
struct process_event make_folded(int type, const char *command, int64_t count);

/* Returns the report as text; `out` owns it. */
const char *format(const struct job_report *report, const struct report_style *style,
                   struct text *out);

/* Fails the test if the text contains control characters or invalid UTF-8. */
void assert_harmless(const struct text *out);
