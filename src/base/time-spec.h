/* Parses points in time as people write them, in the local time zone:
 *
 *   14:00  9:30:15                     the latest such moment that is not after now
 *   3m  2h30m  "3m ago"                that long before now
 *   "2 hours ago"  "1 day 6 hours ago" the same, with units in full
 *   now  today  yesterday              days begin at 00:00
 *   today 14:00  yesterday 14:00:30
 *   2026-11-16  2026-11-16 14:00:05  2026-11-16T14:00:05
 *   ... 14:00Z  ... 14:00:05.5+01:00   a day and a time with an offset from UTC
 *   1789000000  1789000000.5  @1789000000
 *
 * Words may be in any case; blanks around the text are ignored. A time that the clocks skip (in
 * spring) counts from before the jump. A time that occurs twice (in autumn) is the first of the
 * two; a bare time of day is the latest. */
#pragma once

/* Parses the text. `now` and *ret are Unix seconds. Returns 0, -EINVAL (the text as a whole is not
 * a time) or -ERANGE (before 1970 or after the year 9999). */
int time_spec_parse(const char *text, double now, double *ret);
