/* For the tests of reports: runs that are made by hand, in a time zone that is always the same. */
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

/* The time zone. For cmocka: before the first test. */
int report_world_set_up(void **state);

/* A run that began at START, of which next to nothing is known; and one that went well, of which
 * all is. */
struct job_report make_report(int outcome);
struct job_report make_full_report(void);

/* `after`: seconds since START. */
struct process_event make_event(int type, double after, int64_t pid, const char *command);
/* So many of them, that were counted within three seconds. */
struct process_event make_folded(int type, const char *command, int64_t count);

/* The report as text, which is in `out`. */
const char *format(const struct job_report *report, const struct report_style *style,
                   struct text *out);

/* Nothing in it moves the cursor, or is no text. */
void assert_harmless(const struct text *out);
