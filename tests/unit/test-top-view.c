/* How keys change the view of `sonde top`. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "top-world.h"
#include "top/view.h"

#define NOW 1789000000.0

struct stage {
    struct top_world world;
    struct listing listing;
    struct view view;
    struct view_effect effect; /* of the last key */
};

static void rebuild(struct stage *stage)
{
    const struct listing_request request = view_listing_request(&stage->view);

    assert_int_equal(listing_build(&stage->listing, &stage->world.frame, &request), 0);
    view_settle(&stage->view, &stage->listing, NOW);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    if (!stage)
        return -1;
    top_world_init(&stage->world);
    top_world_fill(&stage->world);
    view_init(&stage->view, &(struct view_options){0});
    rebuild(stage);
    view_set_page(&stage->view, &stage->listing, 5);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    top_world_done(&stage->world);
    listing_done(&stage->listing);
    view_done(&stage->view);
    free(stage);
    return 0;
}

static void press(struct stage *stage, int key)
{
    stage->effect = view_key(&stage->view, &stage->listing, key, NOW);
    if (stage->effect.rebuilds)
        rebuild(stage);
}

static void type(struct stage *stage, const char *text)
{
    for (; *text; text++)
        press(stage, *text);
}

static int64_t selected_pid(const struct stage *stage)
{
    const struct row *row = view_selected(&stage->view, &stage->listing);

    assert_non_null(row);
    return row->kind == ROW_PROCESS ? row->figures->pid : 0;
}

static void select_pid(struct stage *stage, int64_t pid)
{
    press(stage, KEYS_HOME);
    while (selected_pid(stage) != pid)
        press(stage, KEYS_DOWN);
}

/* Every key has one action in each mode, and every action has a key. */
static void test_the_table_of_keys(void **state)
{
    static const struct key_mode modes[] = {{false, false}, {true, false}, {false, true}};
    bool is_there[ACTION_QUIT + 1] = {true}; /* ACTION_NONE */
    (void)state;

    for (size_t w = 0; w < ARRAY_SIZE(modes); w++)
        for (size_t i = 0; i < key_count; i++)
            for (size_t k = 0; k < KEY_CODES_MAX && key_table[i].codes[k]; k++) {
                is_there[key_table[i].action] = true;
                if (key_is_enabled(&key_table[i], &modes[w]))
                    assert_int_equal(key_action(key_table[i].codes[k], &modes[w]),
                                     key_table[i].action);
            }
    for (size_t i = 0; i < ARRAY_SIZE(is_there); i++)
        assert_true(is_there[i]);
    assert_int_equal(key_action('k', &modes[0]), ACTION_KILL);
    assert_int_equal(key_action('k', &modes[1]), ACTION_NONE); /* the past */
    assert_int_equal(key_action('k', &modes[2]), ACTION_NONE); /* --readonly */
    assert_int_equal(key_action('j', &modes[0]), ACTION_NONE);
    assert_int_equal(key_action('j', &modes[1]), ACTION_JUMP);
}

static void test_moving(void **state)
{
    struct stage *stage = *state;
    size_t count = stage->listing.rows.count;

    press(stage, KEYS_UP);
    assert_int_equal(stage->view.selected, 0);
    for (size_t i = 0; i < 2 * count; i++) {
        press(stage, KEYS_DOWN);
        assert_true(stage->view.selected >= stage->view.first);
        assert_true(stage->view.selected < stage->view.first + stage->view.page);
    }
    assert_int_equal(stage->view.selected, count - 1);
    press(stage, KEYS_PAGE_UP);
    assert_int_equal(stage->view.selected, count - 5);
    press(stage, KEYS_HOME);
    assert_int_equal(stage->view.selected, 0);
    assert_int_equal(stage->view.first, 0);
    press(stage, KEYS_PAGE_DOWN);
    assert_int_equal(stage->view.selected, 4);
    press(stage, KEYS_END);
    assert_int_equal(stage->view.selected, count - 1);
    /* More room: no blank rows while there are others. */
    view_set_page(&stage->view, &stage->listing, count + 3);
    assert_int_equal(stage->view.first, 0);
}

static void test_sorting(void **state)
{
    struct stage *stage = *state;

    press(stage, 'M');
    assert_string_equal(stage->view.sort->name, "rss_mb");
    press(stage, 'T');
    assert_string_equal(stage->view.sort->name, "cpu_seconds");
    press(stage, 'I');
    assert_true(stage->view.is_ascending);
    press(stage, 'P');
    assert_string_equal(stage->view.sort->name, "cpu_percent");
    assert_false(stage->view.is_ascending);
    /* The list begins at the column that it is sorted by. */
    press(stage, KEYS_F0 + 6);
    assert_int_equal(stage->view.panel, PANEL_SORT);
    press(stage, KEYS_DOWN);
    press(stage, KEYS_ENTER);
    assert_int_equal(stage->view.panel, PANEL_NONE);
    assert_string_equal(stage->view.sort->name, "rss_mb");
    press(stage, 's');
    press(stage, KEYS_ESCAPE);
    assert_string_equal(stage->view.sort->name, "rss_mb");
}

static void test_filter(void **state)
{
    struct stage *stage = *state;
    size_t all = stage->listing.rows.count;

    press(stage, KEYS_F0 + 4);
    type(stage, "traix");
    assert_int_equal(stage->listing.rows.count, 0);
    press(stage, KEYS_BACKSPACE);
    assert_string_equal(stage->view.filter, "trai"); /* as it is typed */
    assert_int_equal(stage->listing.shown_processes, 2);
    press(stage, KEYS_ENTER);
    assert_int_equal(stage->view.prompt, PROMPT_NONE);
    /* Esc in the prompt restores the earlier filter; Esc after it removes the filter. */
    press(stage, '\\');
    type(stage, "ning");
    press(stage, KEYS_ESCAPE);
    assert_string_equal(stage->view.filter, "trai");
    press(stage, KEYS_ESCAPE);
    assert_string_equal(stage->view.filter, "");
    assert_int_equal(stage->listing.rows.count, all);
}

static void test_input_is_text(void **state)
{
    struct stage *stage = *state;

    press(stage, '/');
    press(stage, 0xE9);    /* é */
    press(stage, 0x1F600); /* four bytes */
    press(stage, 0x202E);  /* would turn the line round */
    press(stage, KEYS_F0 + 7);
    assert_string_equal(stage->view.input, "é😀");
    press(stage, KEYS_BACKSPACE);
    assert_string_equal(stage->view.input, "é");
    press(stage, KEYS_BACKSPACE);
    press(stage, KEYS_BACKSPACE);
    assert_string_equal(stage->view.input, "");
    for (int i = 0; i < 3 * VIEW_INPUT_MAX; i++)
        press(stage, 'x');
    assert_true(strlen(stage->view.input) < VIEW_INPUT_MAX);
}

static void test_search(void **state)
{
    struct stage *stage = *state;

    press(stage, '/');
    type(stage, "python");
    assert_int_equal(selected_pid(stage), 111);
    press(stage, KEYS_F0 + 3);
    assert_int_equal(selected_pid(stage), 112);
    press(stage, KEYS_ENTER);
    press(stage, 'n');
    assert_int_equal(selected_pid(stage), 111); /* round again */
    press(stage, '/');
    type(stage, "nowhere");
    press(stage, KEYS_ENTER);
    assert_non_null(strstr(stage->view.message, "not found: nowhere"));
    assert_int_equal(selected_pid(stage), 111);
}

/* What was found stays selected in another order, until the selection is moved. */
static void test_found_row_stays_selected(void **state)
{
    struct stage *stage = *state;

    press(stage, '/');
    type(stage, "112");
    press(stage, KEYS_ENTER);
    size_t place = stage->view.selected;
    press(stage, 'N'); /* by pid */
    press(stage, 'I'); /* and the other way round */
    assert_int_equal(selected_pid(stage), 112);
    assert_int_not_equal(stage->view.selected, place);
    press(stage, KEYS_DOWN);
    place = stage->view.selected;
    press(stage, 'I');
    assert_int_equal(stage->view.selected, place);
}

static void test_folding(void **state)
{
    struct stage *stage = *state;
    size_t all = stage->listing.rows.count;

    press(stage, '-');
    assert_int_equal(stage->listing.rows.count, all - 5);
    press(stage, '+');
    assert_int_equal(stage->listing.rows.count, all);
    /* On a process without children, the key folds its group. */
    select_pid(stage, 111);
    press(stage, '-');
    assert_int_equal(stage->listing.rows.count, all - 3);
    assert_int_equal(view_selected(&stage->view, &stage->listing)->kind, ROW_SHEET);
    press(stage, '*');
    assert_int_equal(stage->listing.rows.count, all);
    press(stage, '*');
    assert_int_equal(stage->listing.rows.count, 3); /* two jobs, the others */
    press(stage, '*');
    assert_int_equal(stage->listing.rows.count, all);
}

static void test_following(void **state)
{
    struct stage *stage = *state;

    select_pid(stage, 112);
    size_t place = stage->view.selected;
    press(stage, 'N');
    assert_int_equal(stage->view.selected, place); /* the place, not the process */
    select_pid(stage, 112);
    press(stage, 'F');
    press(stage, 'I');
    assert_int_equal(selected_pid(stage), 112);
    press(stage, 't');
    assert_int_equal(selected_pid(stage), 112);
    /* It ends. */
    struct process_list *processes = &stage->world.snapshot->processes;
    processes->items[3] = processes->items[--processes->count];
    rebuild(stage);
    assert_false(stage->view.follows);
    assert_non_null(strstr(stage->view.message, "gone"));
}

static void test_tagging(void **state)
{
    struct stage *stage = *state;

    select_pid(stage, 111);
    press(stage, ' ');
    assert_int_equal(selected_pid(stage), 112); /* the selection moves to the next */
    press(stage, ' ');
    assert_int_equal(stage->view.tagged.keys.count, 2);
    press(stage, 'k');
    assert_int_equal(stage->view.targets.count, 2);
    assert_string_equal(stage->view.target_name, "2 tagged processes");
    press(stage, KEYS_ESCAPE);
    press(stage, 'U');
    assert_int_equal(stage->view.tagged.keys.count, 0);
}

static void test_killing_asks_first(void **state)
{
    struct stage *stage = *state;

    select_pid(stage, 111);
    press(stage, KEYS_F0 + 9);
    assert_int_equal(stage->view.panel, PANEL_SIGNALS);
    assert_string_equal(stage->view.target_name, "111 (python3 train.py)");
    press(stage, KEYS_DOWN);
    press(stage, KEYS_ENTER);
    assert_int_equal(stage->view.panel, PANEL_CONFIRM);
    assert_int_equal(stage->view.signal, SIGKILL);
    press(stage, KEYS_ENTER); /* is not a yes */
    assert_false(stage->effect.kills);
    assert_int_equal(stage->view.panel, PANEL_NONE);

    press(stage, 'k');
    press(stage, KEYS_ENTER);
    assert_int_equal(stage->view.signal, SIGTERM);
    press(stage, 'y');
    assert_true(stage->effect.kills);
    assert_int_equal(stage->view.targets.count, 1);
    assert_int_equal(stage->view.targets.items[0].pid, 111);
    assert_true(stage->view.targets.items[0].born == 900); /* 100 s before the frame came */
}

/* All processes of a job, also those that are folded or filtered out. */
static void test_killing_a_job(void **state)
{
    struct stage *stage = *state;

    press(stage, '-');
    press(stage, 'k');
    assert_int_equal(stage->view.targets.count, 4);
    assert_string_equal(stage->view.target_name, "the 4 processes of nightly");
    press(stage, KEYS_ESCAPE);
    press(stage, '-');
    press(stage, KEYS_DOWN); /* the step */
    press(stage, 'k');
    assert_int_equal(stage->view.targets.count, 3);
    press(stage, KEYS_ESCAPE);
    press(stage, KEYS_END);
    while (view_selected(&stage->view, &stage->listing)->kind != ROW_OTHERS)
        press(stage, KEYS_UP);
    press(stage, 'k'); /* everything else is no target */
    assert_int_equal(stage->view.panel, PANEL_NONE);
}

static void test_keys_find_anomalies(void **state)
{
    struct stage *stage = *state;

    press(stage, KEYS_END);
    press(stage, 'a');
    assert_int_equal(view_selected(&stage->view, &stage->listing)->kind, ROW_JOB);
    press(stage, 'a');
    assert_int_equal(selected_pid(stage), 111);
    press(stage, 'A');
    assert_int_equal(view_selected(&stage->view, &stage->listing)->kind, ROW_JOB);
    stage->world.frame.anomalies.count = 0;
    rebuild(stage);
    press(stage, 'a');
    assert_non_null(strstr(stage->view.message, "no row has"));
}

static void expect_command(struct stage *stage, int key, enum feed_order order, double amount)
{
    press(stage, key);
    assert_true(stage->effect.has_command);
    assert_int_equal(stage->effect.command.order, order);
    assert_true(stage->effect.command.amount == amount);
}

static void test_history(void **state)
{
    struct stage *stage = *state;

    stage->view.mode.is_history = true;
    expect_command(stage, 'Z', FEED_PLAY_OR_PAUSE, 0);
    assert_false(stage->view.is_paused); /* the feed is */
    expect_command(stage, ']', FEED_STEP, 1);
    expect_command(stage, '[', FEED_STEP, -1);
    expect_command(stage, '}', FEED_SKIP, 60);
    expect_command(stage, '{', FEED_SKIP, -60);
    expect_command(stage, 'f', FEED_SPEED, 2);
    expect_command(stage, 'd', FEED_SPEED, 0.5);
    expect_command(stage, 'A', FEED_ANOMALY, -1);
    expect_command(stage, 'a', FEED_ANOMALY, 1);
    /* When the frame arrives, the process of the anomaly is selected. */
    rebuild(stage);
    assert_int_equal(selected_pid(stage), 111);

    press(stage, 'j');
    type(stage, "1788999000");
    expect_command(stage, KEYS_ENTER, FEED_SEEK, 1788999000);
    press(stage, 'j');
    type(stage, "noon-ish");
    press(stage, KEYS_ENTER);
    assert_false(stage->effect.has_command);
    assert_non_null(strstr(stage->view.message, "'noon-ish' is not a time"));
}

static void test_pause_and_quit(void **state)
{
    struct stage *stage = *state;

    press(stage, 'Z');
    assert_true(stage->view.is_paused);
    assert_false(stage->effect.has_command);
    press(stage, 'Z');
    assert_false(stage->view.is_paused);
    press(stage, KEYS_REDRAW);
    assert_true(stage->effect.redraws);
    press(stage, 'q');
    assert_true(stage->effect.quits);
}

/* Random keys in any order. */
static void test_random_keys(void **state)
{
    struct stage *stage = *state;
    unsigned seed = 7;

    for (int i = 0; i < 50000; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned choice = seed >> 16;
        int key = choice % 3 ? (int)(' ' + choice / 3 % 95)
                             : (int)(KEYS_FIRST + 1 + choice / 3 % (KEYS_F12 - KEYS_FIRST));
        press(stage, key);
        if (i % 1000 == 0)
            view_set_page(&stage->view, &stage->listing, (size_t)i % 7);
        assert_true(!stage->listing.rows.count || stage->view.selected < stage->listing.rows.count);
        assert_true(stage->view.first <= stage->view.selected);
    }
}

static void test_nothing_to_select(void **state)
{
    struct stage *stage = *state;

    stage->world.snapshot->processes.count = 0;
    stage->world.snapshot->jobs.count = 0;
    stage->world.frame.anomalies.count = 0;
    rebuild(stage);
    assert_null(view_selected(&stage->view, &stage->listing));
    static const int keys[] = {KEYS_DOWN, KEYS_UP,    KEYS_END, 'a', 'A', ' ',           '-',
                               '*',       KEYS_ENTER, 'n',      'F', 'k', KEYS_PAGE_DOWN};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        press(stage, keys[i]);
    assert_int_equal(stage->view.panel, PANEL_NONE);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_keys),
        T(test_moving),
        T(test_sorting),
        T(test_filter),
        T(test_input_is_text),
        T(test_search),
        T(test_found_row_stays_selected),
        T(test_folding),
        T(test_following),
        T(test_tagging),
        T(test_killing_asks_first),
        T(test_killing_a_job),
        T(test_keys_find_anomalies),
        T(test_history),
        T(test_pause_and_quit),
        T(test_random_keys),
        T(test_nothing_to_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
