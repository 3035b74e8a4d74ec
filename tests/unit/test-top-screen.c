/* The screen of `sonde top`: canvas, layout and drawing, at every size. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "top-world.h"
#include "top/screen.h"

#define NOW 1789000000.0

static const char *row_text(const struct canvas *canvas, unsigned row)
{
    return row < canvas->rows ? text_string(&canvas->items[row].bytes) : "";
}

/* ---- the canvas ---- */

static void test_rows_are_cut_at_the_edge(void **state)
{
    struct canvas canvas = {0};
    (void)state;

    assert_int_equal(canvas_begin(&canvas, 3, 10, false), 0);
    row_put(&canvas, 0, LOOK_PLAIN, "12345");
    row_put(&canvas, 0, LOOK_BAD, "67890abc");
    assert_string_equal(row_text(&canvas, 0), "1234567890");
    assert_int_equal(canvas.items[0].spans.count, 2);
    row_visible(&canvas, 1, LOOK_PLAIN, "a command line", SIZE_MAX);
    assert_string_equal(row_text(&canvas, 1), "a command…");
    row_put(&canvas, 7, LOOK_PLAIN, "a row that is not there");
    row_pad(&canvas, 2, LOOK_PLAIN, 99);
    assert_int_equal(row_width(&canvas, 2), 10);
    assert_int_equal(canvas_error(&canvas), 0);
    canvas_done(&canvas);
}

/* Wide characters take two columns, combining ones none, and none is cut in half. */
static void test_wide_characters(void **state)
{
    struct canvas canvas = {0};
    (void)state;

    assert_int_equal(canvas_begin(&canvas, 3, 7, false), 0);
    row_put(&canvas, 0, LOOK_PLAIN, "日本語処理");
    assert_string_equal(row_text(&canvas, 0), "日本語");
    assert_int_equal(row_width(&canvas, 0), 6);
    row_put(&canvas, 1, LOOK_PLAIN, "e\xcc\x81xyz");
    assert_int_equal(row_width(&canvas, 1), 4);
    row_shifted(&canvas, 2, LOOK_PLAIN, "日本語処理", 4);
    assert_string_equal(row_text(&canvas, 2), "語処理");
    canvas_done(&canvas);
}

static void test_ascii_only(void **state)
{
    struct canvas canvas = {0};
    (void)state;

    assert_int_equal(canvas_begin(&canvas, 2, 12, true), 0);
    row_visible(&canvas, 0, LOOK_PLAIN, "naïve 日本", SIZE_MAX);
    assert_string_equal(row_text(&canvas, 0), "na?ve ????");
    row_visible(&canvas, 1, LOOK_PLAIN, "a long command line", SIZE_MAX);
    assert_string_equal(row_text(&canvas, 1), "a long comm~");
    canvas_done(&canvas);
}

static void test_hostile_text(void **state)
{
    struct canvas canvas = {0};
    (void)state;

    assert_int_equal(canvas_begin(&canvas, 2, 60, false), 0);
    row_visible(&canvas, 0, LOOK_PLAIN, "\x1b[2Jrm\r\n\t\x07 \xe2\x80\xae evil \xff", SIZE_MAX);
    assert_string_equal(row_text(&canvas, 0), "\\x1b[2Jrm\\r\\n\\t\\a \\u202e evil \\xff");
    row_shifted(&canvas, 1, LOOK_PLAIN, "\x1b[31mred", 4);
    assert_string_equal(row_text(&canvas, 1), "[31mred");
    canvas_done(&canvas);
}

/* ---- the layout ---- */

static unsigned check_part(struct part part, unsigned at, unsigned rows)
{
    if (part.count)
        assert_int_equal(part.at, at);
    assert_in_range(part.at + part.count, 0, rows);
    return at + part.count;
}

/* Parts do not overlap, stay within the screen and fill all rows; there is always a table. */
static void test_layout_at_every_size(void **state)
{
    (void)state;

    for (unsigned rows = 0; rows <= 120; rows++)
        for (unsigned choice = 0; choice < 16; choice++) {
            const struct layout_request request = {
                .rows = rows,
                .columns = choice & 1 ? 200 : 40,
                .gpus = choice & 2 ? 9 : 0,
                .with_timeline = choice & 4,
                .detail_rows = choice & 8 ? 9 : 0,
            };
            struct layout layout = layout_make(&request);
            unsigned at = check_part(layout.title, 0, rows);
            at = check_part(layout.meters, at, rows);
            at = check_part(layout.heading, at, rows);
            at = check_part(layout.table, at, rows);
            at = check_part(layout.detail, at, rows);
            at = check_part(layout.timeline, at, rows);
            at = check_part(layout.bar, at, rows);
            assert_int_equal(at, rows);
            if (rows)
                assert_true(layout.table.count > 0);
            if (rows >= 24) { /* all parts are shown */
                assert_true(layout.meters.count >= 3 && layout.bar.count == 1);
                assert_true(layout.table.count >= 4);
                assert_int_equal(layout.detail.count > 0, (choice & 8) != 0);
            }
            if (rows >= 24 && !(choice & 8))
                assert_int_equal(layout.timeline.count > 0, (choice & 4) != 0);
        }
}

/* ---- the screen ---- */

struct stage {
    struct top_world world;
    struct feed_status status;
    struct listing listing;
    struct view view;
    struct timeline timeline;
    struct trails trails;
    struct canvas canvas;
};

static const char *name_user(void *context, int64_t uid)
{
    (void)context;
    return uid == 1000 ? "ada" : NULL;
}

static struct screen screen_of(const struct stage *stage)
{
    return (struct screen){.frame = &stage->world.frame,
                           .status = &stage->status,
                           .listing = &stage->listing,
                           .view = &stage->view,
                           .timeline = &stage->timeline,
                           .trails = &stage->trails,
                           .now = NOW + 1,
                           .user_name = name_user};
}

static void add_headline(struct stage *stage, const struct event_line *news)
{
    struct headline *headline = headline_new(news);

    assert_non_null(headline);
    timeline_add(&stage->timeline, headline);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    struct process_event event;

    if (!stage)
        return -1;
    setenv("TZ", "UTC", 1);
    tzset();
    top_world_init(&stage->world);
    top_world_fill(&stage->world);
    view_init(&stage->view, &(struct view_options){0});
    trails_add(&stage->trails, stage->world.snapshot);
    record_init(&process_event_record, &event);
    event.timestamp = NOW - 2;
    event.event_type = EVENT_EXIT;
    event.exit_code = 3;
    event.pid = 113;
    event.job_id = "nightly";
    event.command = "false";
    const struct event_line exit = {.event = "process.exit",
                                    .timestamp = NOW - 2,
                                    .job_id = "nightly",
                                    .sheet_num = INT_UNKNOWN,
                                    .kind = EVENT_KIND_PROCESS,
                                    .process = event};
    const struct event_line opened =
        event_line_of_anomaly(&stage->world.frame.anomalies.items[0], false);
    add_headline(stage, &exit);
    add_headline(stage, &opened);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    top_world_done(&stage->world);
    listing_done(&stage->listing);
    view_done(&stage->view);
    timeline_done(&stage->timeline);
    trails_done(&stage->trails);
    canvas_done(&stage->canvas);
    free(stage);
    return 0;
}

static void draw(struct stage *stage, unsigned rows, unsigned columns)
{
    const struct listing_request request = view_listing_request(&stage->view);
    const struct screen screen = screen_of(stage);

    assert_int_equal(listing_build(&stage->listing, &stage->world.frame, &request), 0);
    view_settle(&stage->view, &stage->listing, NOW);
    assert_int_equal(canvas_begin(&stage->canvas, rows, columns, stage->canvas.is_ascii), 0);
    struct layout layout = screen_layout(&screen, rows, columns);
    view_set_page(&stage->view, &stage->listing, layout.table.count);
    screen_draw(&screen, &stage->canvas);
    assert_int_equal(canvas_error(&stage->canvas), 0);
}

static void assert_row(const struct stage *stage, unsigned row, const char *expected)
{
    _cleanup_text_ struct text text = {0};
    const char *found = row_text(&stage->canvas, row);
    size_t length = strlen(found);

    while (length && found[length - 1] == ' ')
        length--;
    text_append(&text, found, length);
    assert_string_equal(text_string(&text), expected);
}

static bool shows(const struct stage *stage, const char *words)
{
    for (unsigned i = 0; i < stage->canvas.rows; i++)
        if (strstr(row_text(&stage->canvas, i), words))
            return true;
    return false;
}

static void press(struct stage *stage, int key)
{
    view_key(&stage->view, &stage->listing, key, NOW);
}

static void test_the_whole_screen(void **state)
{
    struct stage *stage = *state;

    draw(stage, 24, 100);
    unsigned row = 0;
    assert_row(stage, row++,
               "sonde daemon on vm, up 1:02:05"
               "                                                              "
               "00:26:40");
    assert_row(stage, row++,
               "CPU [█████████████▋················· 87.5% of 2]  Jobs 2  Steps 1  Processes 8");
    assert_row(stage, row++,
               "Mem [████████························ 2.0G/8.0G]"
               "  Load 1.25 0.50 0.25  Stalled cpu - mem - io -");
    assert_row(stage, row++,
               "own CPU -%, -                                    "
               " Pressure low  Anomalies 1  memory_spike in nightly");
    assert_row(stage, row++, "    PID USER     S  CPU%▼       RSS       AGE       TIME COMMAND");
    assert_row(stage, row++,
               "                    120.0    500.0M      1:40      12.50 "
               "▾ nightly  ▲ memory_spike  [████······ 2/5]");
    assert_row(stage, row++,
               "                    120.0    480.0M      1:40      12.00    ▾ step 3  3 processes");
    assert_row(stage, row++,
               "    111 ada      S  119.0    450.0M      1:40      11.90      "
               "▲ memory_spike python3 train.py");
    assert_row(stage, row++,
               "    112 ada      S    1.0     28.0M      1:40       0.10      python3 load.py");
    assert_true(shows(stage, "▾ backup  1 process"));
    assert_true(shows(stage, "▾ other processes  3 processes"));
    assert_row(stage, 17,
               "── events ──────────────────────────────────────────────────────────────"
               "────────────────────────────");
    assert_row(stage, 18, "00:26:35 anomaly     111 nightly        critical memory_spike: it grew");
    assert_row(stage, 19, "00:26:38 exit        113 nightly        status 3  false");
    assert_true(shows(stage, "F1Help F3Search F4Filter F5Tree F6Sort F9Kill"));
}

/* At 80 columns, the left half is cut so that the halves stay apart. */
static void test_own_cost_and_pressure_are_apart(void **state)
{
    struct stage *stage = *state;
    struct snapshot *snapshot = stage->world.snapshot;

    snapshot->daemon_cpu_percent = 0.1;
    snapshot->daemon_rss_mb = 19;
    snapshot->collect_ms = 0.4;
    draw(stage, 24, 80);
    assert_true(shows(stage, "own CPU 0.1%, 19.0M, 0.4 ms             Pressure low"));
    draw(stage, 24, 100);
    assert_true(shows(stage, "0.4 ms per snapshot"));
}

/* Without a daemon, only the processes have steps. */
static void test_steps_of_processes_are_counted(void **state)
{
    struct stage *stage = *state;

    stage->world.snapshot->active_sheets = 0;
    draw(stage, 24, 100);
    assert_true(shows(stage, "step 3"));
    assert_true(shows(stage, "Jobs 2  Steps 1"));
}

static void test_detail(void **state)
{
    struct stage *stage = *state;

    draw(stage, 30, 100);
    press(stage, KEYS_DOWN);
    press(stage, KEYS_DOWN);
    press(stage, KEYS_ENTER);
    draw(stage, 30, 100);
    assert_true(shows(stage, "── process 111 ─"));
    assert_true(shows(stage, " CPU      now 119.0  time 11.90           max 119.0"));
    assert_true(shows(stage, " memory   rss 450.0M  peak -"));
    assert_true(shows(stage, "█"));
    assert_true(shows(stage, " anomaly  memory_spike: it grew"));
    assert_true(shows(stage, " state    S sleeping  parent 110  user ada  since 00:25:00"));
    assert_true(shows(stage, " uses     threads 1  fds -  of -"));
    assert_true(shows(stage, " job      nightly  step 3  run nightly"));
    assert_true(shows(stage, " command  python3 train.py"));
    assert_true(shows(stage, " syscalls not traced"));
    press(stage, KEYS_ENTER);
    draw(stage, 30, 100);
    assert_false(shows(stage, "process 111"));
}

static void test_memory_of_a_job(void **state)
{
    struct stage *stage = *state;

    draw(stage, 30, 100);
    press(stage, KEYS_ENTER);
    draw(stage, 30, 100);
    assert_true(shows(stage, " memory   all processes 500.0M  together, at most "));
}

static void test_title_without_a_daemon(void **state)
{
    struct stage *stage = *state;

    stage->status.kind = FEED_LOCAL;
    draw(stage, 24, 80);
    assert_true(shows(stage, "sonde on vm (no daemon) "));
}

static void test_symbols_in_ascii(void **state _unused_)
{
    struct canvas canvas = {0};

    assert_int_equal(canvas_begin(&canvas, 1, 12, true), 0);
    row_put(&canvas, 0, LOOK_PLAIN, "≥ 8 → é…xyz");
    assert_string_equal(row_text(&canvas, 0), ">= 8 -> ?...");
    canvas_done(&canvas);
}

static void test_syscalls_of_a_process(void **state)
{
    struct stage *stage = *state;
    struct tally shares[] = {{"read", 10}, {"write", 62}, {"futex", 28}};
    struct process_metric *train = &stage->world.snapshot->processes.items[2];

    train->syscall_time_pct = (struct tally_list){shares, ARRAY_SIZE(shares)};
    train->syscall_source = SYSCALLS_BPF;
    draw(stage, 30, 100);
    press(stage, KEYS_DOWN);
    press(stage, KEYS_DOWN);
    press(stage, KEYS_ENTER);
    draw(stage, 30, 100);
    assert_true(shows(stage, " syscalls write 62%  futex 28%  read 10%  (bpf)"));
}

static void test_daemon_that_is_down(void **state)
{
    struct stage *stage = *state;

    stage->status.is_down = true;
    stage->status.down_since = NOW - 11;
    snprintf(stage->status.reason, sizeof(stage->status.reason), "the daemon has gone away");
    draw(stage, 24, 80);
    assert_row(stage, 0,
               "sonde  daemon down for 12 s  the daemon has gone away                   00:26:40");
    assert_true(shows(stage, "nightly")); /* the last data stays visible */
}

static void test_replay(void **state)
{
    struct stage *stage = *state;

    stage->view.mode.is_history = true;
    stage->status = (struct feed_status){.kind = FEED_HISTORY,
                                         .speed = 10,
                                         .is_playing = true,
                                         .position = 29,
                                         .count = 60,
                                         .first = NOW - 100,
                                         .last = NOW + 100};
    draw(stage, 24, 100);
    assert_non_null(strstr(row_text(&stage->canvas, 0), "▶ replay x10 on vm  00:26:40 ["));
    assert_non_null(strstr(row_text(&stage->canvas, 0), " 30/60]"));
    assert_false(shows(stage, "Kill")); /* the past cannot be changed */
    assert_true(shows(stage, "]Step"));
    stage->status.is_playing = false;
    draw(stage, 24, 100);
    assert_non_null(strstr(row_text(&stage->canvas, 0), "|| replay x10"));
}

static void test_gpus(void **state)
{
    struct stage *stage = *state;
    struct gpu_metric gpus[3];

    for (size_t i = 0; i < 3; i++) {
        record_init(&gpu_metric_record, &gpus[i]);
        gpus[i].index = (int64_t)i;
        gpus[i].utilization_pct = 50;
        gpus[i].memory_used_mb = 2048;
        gpus[i].memory_total_mb = 8192;
        gpus[i].temperature_c = 61;
    }
    gpus[1].utilization_pct = REAL_UNKNOWN;
    gpus[1].power_w = 118.25;
    record_init(&gpu_metric_record, &gpus[2]); /* its driver does not answer */
    gpus[2].index = 12;
    stage->world.snapshot->gpus = (struct gpu_list){gpus, 3};
    draw(stage, 30, 100);
    assert_true(shows(stage, "GPU0   [█████████▌········· 50.0% 2.0G/8.0G 61C]"));
    assert_true(shows(stage, "GPU1   ["));
    assert_true(shows(stage, "· - 2.0G/8.0G 61C 118W]"));
    assert_true(shows(stage, "GPU12  ["));
    assert_true(shows(stage, "··· -]"));
}

static void test_help_comes_from_the_table(void **state)
{
    struct stage *stage = *state;

    press(stage, KEYS_F0 + 1);
    draw(stage, 60, 80);
    for (size_t i = 0; i < key_count; i++)
        assert_int_equal(shows(stage, key_table[i].meaning),
                         key_is_enabled(&key_table[i], &stage->view.mode));
    press(stage, KEYS_ESCAPE);
    stage->view.mode.is_readonly = true;
    press(stage, '?');
    draw(stage, 60, 80);
    assert_false(shows(stage, "send a signal"));
}

static void test_hostile_names(void **state)
{
    struct stage *stage = *state;

    add_job_usage(&stage->world, "job\x1b[31m", 500, 1);
    add_member(&stage->world, "job\x1b[31m", INT_UNKNOWN, 900, 1, "\x1b]0;title\x07 \xe2\x80\xae",
               9, 1);
    draw(stage, 30, 100);
    assert_true(shows(stage, "job\\x1b[31m"));
    assert_true(shows(stage, "\\x1b]0;title\\a \\u202e"));
    press(stage, KEYS_DOWN);
    press(stage, KEYS_ENTER);
    press(stage, 'k');
    draw(stage, 30, 100);
    for (unsigned i = 0; i < stage->canvas.rows; i++)
        for (const char *at = row_text(&stage->canvas, i); *at; at++)
            assert_true((unsigned char)*at >= ' ' && *at != 0x7F);
}

/* With any panel open, at every size: no row is wider than the screen, nothing is read out of
 * bounds (under the sanitizers). */
static void test_every_size(void **state)
{
    static const unsigned widths[] = {0, 1, 2, 3, 5, 8, 13, 20, 39, 40, 41, 69, 70, 80, 132, 200};
    static const int doors[] = {0, KEYS_ENTER, 'k', 's', '?', '/', '\\'};
    struct stage *stage = *state;

    top_world_crowd(&stage->world, 200);
    for (unsigned ascii = 0; ascii < 2; ascii++)
        for (size_t door = 0; door < ARRAY_SIZE(doors); door++) {
            draw(stage, 24, 80);
            press(stage, KEYS_DOWN);
            if (doors[door])
                press(stage, doors[door]);
            for (unsigned rows = 0; rows <= 50; rows += 1 + rows / 12)
                for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
                    stage->canvas.is_ascii = ascii;
                    draw(stage, rows, widths[i]);
                    for (unsigned row = 0; row < rows; row++) {
                        assert_true(row_width(&stage->canvas, row) <= widths[i]);
                        for (const char *at = row_text(&stage->canvas, row); ascii && *at; at++)
                            assert_in_range(*at, ' ', '~');
                    }
                }
            press(stage, KEYS_ESCAPE);
            press(stage, KEYS_ESCAPE);
        }
}

static void test_before_the_first_frame(void **state)
{
    struct stage *stage = *state;
    struct listing empty = {0};
    struct screen screen = screen_of(stage);

    screen.frame = NULL;
    screen.listing = &empty;
    stage->view.has_detail = true;
    assert_int_equal(canvas_begin(&stage->canvas, 24, 80, false), 0);
    screen_draw(&screen, &stage->canvas);
    assert_true(shows(stage, "waiting for the first snapshot"));
}

/* ---- the timeline ---- */

static void test_timeline(void **state)
{
    struct timeline timeline = {0};
    struct gap gap = {.kind = GAP_SUSPEND, .seconds = 3};
    (void)state;

    for (int i = 0; i < TIMELINE_KEPT + 100; i++) {
        gap.timestamp = 1000 + (i ^ 1); /* nearly in order */
        const struct event_line news = event_line_of_gap(&gap);
        timeline_add(&timeline, headline_new(&news));
        timeline_add(&timeline, headline_new(&news)); /* and twice */
    }
    assert_int_equal(timeline.items.count, TIMELINE_KEPT);
    for (size_t i = 1; i < timeline.items.count; i++)
        assert_true(timeline.items.items[i - 1]->timestamp < timeline.items.items[i]->timestamp);
    assert_string_equal(timeline.items.items[0]->label, "gap");
    assert_string_equal(timeline.items.items[0]->text,
                        "3.00 s not sampled: the machine was suspended");
    timeline_done(&timeline);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_cut_at_the_edge),
        cmocka_unit_test(test_wide_characters),
        cmocka_unit_test(test_ascii_only),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_layout_at_every_size),
        T(test_the_whole_screen),
        T(test_own_cost_and_pressure_are_apart),
        T(test_steps_of_processes_are_counted),
        T(test_detail),
        T(test_memory_of_a_job),
        T(test_title_without_a_daemon),
        cmocka_unit_test(test_symbols_in_ascii),
        T(test_syscalls_of_a_process),
        T(test_daemon_that_is_down),
        T(test_replay),
        T(test_gpus),
        T(test_help_comes_from_the_table),
        T(test_hostile_names),
        T(test_every_size),
        T(test_before_the_first_frame),
        cmocka_unit_test(test_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
