/* Points in time as people write them, in the local time zone:
 *
 *   14:00  9:30:15                     the latest such moment that is not after now
 *   3m  2h30m  "3m ago"                that long before now
 *   now  today  yesterday              the days from 00:00
 *   today 14:00  yesterday 14:00:30
 *   2026-11-16  2026-11-16 14:00:05  2026-11-16T14:00:05
 *   … 14:00Z  … 14:00:05.5+01:00       a day and a time with their own offset from UTC
 *   1789000000  1789000000.5  @1789000000
 *
 * Words in any case, blanks around it ignored. A time that the clocks skip (a spring night) is as
 * far after the jump as it says; of one that comes twice (an autumn night) it is the first, but for
 * a bare time of day, which is the latest. */
#pragma once

/* `now` and *ret are Unix seconds. 0, -EINVAL (not a time; the whole text must be one) or -ERANGE
 * (before 1970 or after the year 9999). */
int time_spec_parse(const char *text, double now, double *ret);
