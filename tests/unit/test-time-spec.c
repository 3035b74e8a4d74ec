#include "unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "base/time-spec.h"

#define BERLIN   "CET-1CEST,M3.5.0,M10.5.0/3"
#define NEW_YORK "EST5EDT,M3.2.0,M11.1.0"
/* Clocks that jump at midnight, as Beirut's do: the day begins at 01:00. */
#define BEIRUT "EET-2EEST,M3.5.0/0,M10.5.0/0"

struct expectation {
    const char *text;
    double moment;
};

static double utc(int year, int month, int day, int hour, int minute, int second)
{
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second};
    return (double)timegm(&tm);
}

static void set_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

static void expect(const char *text, double now, double moment)
{
    double found = -1;

    int r = time_spec_parse(text, now, &found);
    if (r != 0 || found != moment)
        fail_msg("'%s' at %.0f gave %d and %.3f, not %.3f", text, now, r, found, moment);
}

static void expect_all(const struct expectation *expected, size_t count, double now)
{
    for (size_t i = 0; i < count; i++)
        expect(expected[i].text, now, expected[i].moment);
}

static void test_every_form_in_utc(void **state _unused_)
{
    double now = utc(2026, 11, 16, 13, 30, 0) + 0.25;
    double day = utc(2026, 11, 16, 0, 0, 0), hour = 3600;
    const struct expectation expected[] = {
        {"now", now},
        {" NOW\t", now},
        {"13:30", day + 13.5 * hour},
        {"13:30:00.5", day - 24 * hour + 13.5 * hour + 0.5},
        {"14:00", day - 10 * hour},
        {"9:05", day + 9 * hour + 300},
        {"09:05:07", day + 9 * hour + 307},
        {"00:00", day},
        {"3m ago", now - 180},
        {"3m", now - 180},
        {"2h30m ago", now - 2.5 * hour},
        {"  1.5h   AGO ", now - 1.5 * hour},
        {"500ms", now - 0.5},
        {"0s", now},
        {"20d ago", now - 480 * hour},
        {"2 hours ago", now - 2 * hour},
        {"2  Hours\tAGO", now - 2 * hour},
        {"1 hour ago", now - hour},
        {"1.5 hours", now - 1.5 * hour},
        {"90 min ago", now - 1.5 * hour},
        {"1 hour 30 minutes ago", now - 1.5 * hour},
        {"30 seconds ago", now - 30},
        {"3days ago", now - 72 * hour},
        {"1 week 1 day ago", now - 192 * hour},
        {"today", day},
        {"Yesterday", day - 24 * hour},
        {"yesterday 14:00", day - 10 * hour},
        {"today   14:00:30", day + 14 * hour + 30}, /* may be in the future */
        {"2026-11-16", day},
        {"2026-11-16 14:00", day + 14 * hour},
        {"2026-11-16T14:00:05", day + 14 * hour + 5},
        {"2026-11-16t14:00:05.25", day + 14 * hour + 5.25},
        {"2026-11-16T14:00:05Z", day + 14 * hour + 5},
        {"2026-11-16 14:00z", day + 14 * hour},
        {"2026-11-16T14:00:05+01:00", day + 13 * hour + 5},
        {"2026-11-16 14:00:05 -0230", day + 16.5 * hour + 5},
        {"2024-02-29", utc(2024, 2, 29, 0, 0, 0)},
        {"1789000000", 1789000000},
        {"1789000000.5", 1789000000.5},
        {"@1789000000", 1789000000},
        {"0", 0},
        {"1970-01-01", 0},
        {"9999-12-31 23:59:59", utc(9999, 12, 31, 23, 59, 59)},
    };

    set_zone("UTC0");
    expect_all(expected, ARRAY_SIZE(expected), now);
}

static void test_invalid_times(void **state _unused_)
{
    static const char *const refused[] = {
        "",
        " ",
        "ago",
        "3 ago",
        "soon",
        "nowish",
        "now 14:00",
        "todayish",
        "tomorrow",
        "today 14",
        "todays",
        "3m agone",
        "3m 14:00",
        "3x ago",
        "3M ago",
        "2 hours ago ago",
        "2 hoursago",
        "hours ago",
        "2 hour 3",
        "2 ours ago",
        "1 minute 2 hours ago",
        "1 hour 1 hour ago",
        "1.2.3 hours ago",
        "-2 hours ago",
        "m",
        "-3m",
        "3m ago ago",
        "24:00",
        "23:60",
        "23:59:60",
        "1:2",
        "014:00",
        "14:00:",
        "14:00:5",
        "14:00:05.",
        "14:",
        ":00",
        "14:00 x",
        "14:00Z",
        "2026-02-30",
        "2026-13-01",
        "2026-00-10",
        "2026-01-00",
        "2025-02-29",
        "2026-1-1",
        "26-01-01",
        "12026-01-01",
        "2026-11",
        "2026-11-16T",
        "2026-11-16 ago",
        "@",
        "@3m",
        "0x10",
        "1,5",
        "NaN",
        "inf",
        "1789000000s ago today",
        "2026-11-16Z",
        "2026-11-16  14:00+1:00",
        "2026-11-16 14:00+24:00",
        "2026-11-16 14:00+01:60",
        "2026-11-16 14:00+01:00 x",
        "2026-11-16 14:00+010",
        "2026-11-16 14:00ZZ",
        "14\n:00",
        "14:00\n",
        "１４:００",
        "1789000000.0000000000000000000000000000000000000000000000000000000000000000000",
    };
    double found = 42;

    set_zone("UTC0");
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        int r = time_spec_parse(refused[i], 1789000000, &found);
        if (r != -EINVAL)
            fail_msg("'%s' gave %d and %f", refused[i], r, found);
    }
    assert_true(found == 42);
}

static void test_out_of_range(void **state _unused_)
{
    static const char *const refused[] = {
        "1969-12-31",
        "0000-01-01",
        "-1",
        "253402300800",
        "1e300",
        "1e999",
        "50000d ago",
        "300000d",
        "99999999999999999999 weeks ago",
        "1789000000000",
        "9999-12-31 23:59:59-01:00",
        "1970-01-01 00:00+01:00",
    };
    double found = 42;

    set_zone("UTC0");
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (time_spec_parse(refused[i], 1789000000, &found) != -ERANGE)
            fail_msg("'%s' gave %f", refused[i], found);
    assert_int_equal(time_spec_parse("now", (double)NAN, &found), -ERANGE);
    assert_int_equal(time_spec_parse("now", -1, &found), -ERANGE);
    assert_int_equal(time_spec_parse("yesterday", 3600, &found), -ERANGE);
    set_zone(BERLIN);
    assert_int_equal(time_spec_parse("1970-01-01", 1789000000, &found), -ERANGE);
    assert_true(found == 42);
}

static void test_local_time(void **state _unused_)
{
    double now = utc(2026, 7, 10, 22, 30, 0); /* 00:30 on the 11th in Berlin */
    const struct expectation expected[] = {
        {"00:10", utc(2026, 7, 10, 22, 10, 0)},
        {"00:40", utc(2026, 7, 9, 22, 40, 0)},
        {"23:00", utc(2026, 7, 10, 21, 0, 0)},
        {"today", utc(2026, 7, 10, 22, 0, 0)},
        {"yesterday", utc(2026, 7, 9, 22, 0, 0)},
        {"yesterday 14:00", utc(2026, 7, 10, 12, 0, 0)},
        {"2026-07-11", utc(2026, 7, 10, 22, 0, 0)},
        {"2026-01-11 12:00", utc(2026, 1, 11, 11, 0, 0)},
        {"2026-07-11 12:00Z", utc(2026, 7, 11, 12, 0, 0)},
    };

    set_zone(BERLIN);
    expect_all(expected, ARRAY_SIZE(expected), now);
    set_zone(NEW_YORK);
    expect("today", now, utc(2026, 7, 10, 4, 0, 0));
    expect("18:30", now, now);
    expect("18:31", now, utc(2026, 7, 9, 22, 31, 0));
}

static void test_clocks_go_forward(void **state _unused_)
{
    double now = utc(2026, 3, 29, 10, 0, 0); /* clocks went from 02:00 to 03:00 at 01:00 UTC */
    const struct expectation expected[] = {
        {"01:59:59", utc(2026, 3, 29, 0, 59, 59)}, {"02:00", utc(2026, 3, 29, 1, 0, 0)},
        {"02:30", utc(2026, 3, 29, 1, 30, 0)},     {"2026-03-29 02:30", utc(2026, 3, 29, 1, 30, 0)},
        {"03:00", utc(2026, 3, 29, 1, 0, 0)},      {"03:30", utc(2026, 3, 29, 1, 30, 0)},
        {"today", utc(2026, 3, 28, 23, 0, 0)},     {"yesterday", utc(2026, 3, 27, 23, 0, 0)},
        {"11h ago", utc(2026, 3, 28, 23, 0, 0)},
    };

    set_zone(BERLIN);
    /* Earlier conversions must have no effect. */
    for (int round = 0; round < 3; round++) {
        expect("2026-12-24 12:00", now, utc(2026, 12, 24, 11, 0, 0));
        expect_all(expected, ARRAY_SIZE(expected), now);
        expect("2026-06-24 12:00", now, utc(2026, 6, 24, 10, 0, 0));
        expect_all(expected, ARRAY_SIZE(expected), now);
    }
    /* The day after, its yesterday had 23 hours. */
    expect("yesterday", utc(2026, 3, 30, 5, 0, 0), utc(2026, 3, 28, 23, 0, 0));
    set_zone(BEIRUT);
    expect("2026-03-29", now, utc(2026, 3, 28, 22, 0, 0));
    expect("today", now, utc(2026, 3, 28, 22, 0, 0));
}

static void test_clocks_go_back(void **state _unused_)
{
    double first = utc(2026, 10, 25, 0, 30, 0), second = utc(2026, 10, 25, 1, 30, 0);

    set_zone(BERLIN); /* from 03:00 back to 02:00 at 01:00 UTC */
    expect("2026-10-25 02:30", second, first);
    expect("today 02:30", second, first);
    expect("02:30", second, second);
    expect("02:30", second - 1, first);
    expect("02:30", first, first);
    expect("02:30", first - 1, utc(2026, 10, 24, 0, 30, 0));
    expect("02:30", second + 36000, second);
    expect("03:00", second + 36000, utc(2026, 10, 25, 2, 0, 0));
    expect("yesterday", utc(2026, 10, 26, 5, 0, 0), utc(2026, 10, 24, 22, 0, 0));
}

/* More than a year, in unusual zones: the local time of a moment converts back to it, or to the
 * moment an hour later or earlier where the clock shows that time twice. */
static void test_local_times_round_trip(void **state _unused_)
{
    static const char *const zones[] = {BERLIN, NEW_YORK, BEIRUT, "<+1245>-12:45",
                                        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"};

    for (size_t i = 0; i < ARRAY_SIZE(zones); i++) {
        set_zone(zones[i]);
        for (time_t at = 1767000000; at < 1767000000 + 400 * 86400; at += 7 * 60) {
            struct tm tm;
            char text[64];
            double found;
            localtime_r(&at, &tm);
            strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
            assert_int_equal(time_spec_parse(text, 1789000000, &found), 0);
            assert_true(found == (double)at || found == (double)at - 3600 ||
                        found == (double)at - 1800);
            strftime(text, sizeof(text), "%H:%M:%S", &tm);
            expect(text, (double)at, (double)at);
            expect(text, (double)at + 0.5, (double)at);
            strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S%z", &tm);
            expect(text, 1789000000, (double)at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_in_utc),      cmocka_unit_test(test_invalid_times),
        cmocka_unit_test(test_out_of_range),           cmocka_unit_test(test_local_time),
        cmocka_unit_test(test_clocks_go_forward),      cmocka_unit_test(test_clocks_go_back),
        cmocka_unit_test(test_local_times_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
