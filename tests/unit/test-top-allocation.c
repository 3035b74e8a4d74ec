/* Every allocation between a frame and the screen fails once, and then all from it on: each time an
 * error is returned or something is omitted, nothing crashes or leaks (under ASan), and the next
 * attempt works. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failing-allocator.h"
#include "top-world.h"
#include "top/screen.h"

struct stage {
    struct top_world world;
    struct listing listing;
    struct view view;
    struct timeline timeline;
    struct trails trails;
    struct canvas canvas;
};

static void add_headline(struct stage *stage)
{
    const struct event_line news =
        event_line_of_anomaly(&stage->world.frame.anomalies.items[0], false);
    struct headline *headline = headline_new(&news);

    if (headline)
        timeline_add(&stage->timeline, headline);
}

static enum arrangement arrangement; /* of the stages that are begun */

/* From a frame to rows of text; 0 or -ENOMEM. */
static int show(struct stage *stage)
{
    static const struct feed_status status;
    const struct listing_request request = view_listing_request(&stage->view);
    const struct screen screen = {.frame = &stage->world.frame,
                                  .status = &status,
                                  .listing = &stage->listing,
                                  .view = &stage->view,
                                  .timeline = &stage->timeline,
                                  .trails = &stage->trails};

    trails_add(&stage->trails, stage->world.frame.snapshot);
    add_headline(stage);
    int r = listing_build(&stage->listing, &stage->world.frame, &request);
    view_settle(&stage->view, &stage->listing, 0);
    static const int keys[] = {KEYS_DOWN, KEYS_DOWN, ' ', ' ', '-', KEYS_ENTER, 'k'};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        view_key(&stage->view, &stage->listing, keys[i], 0);
    if (r == 0)
        r = canvas_begin(&stage->canvas, 30, 100, false);
    if (r == 0) {
        screen_draw(&screen, &stage->canvas);
        r = canvas_error(&stage->canvas);
    }
    return r;
}

static void begin(struct stage *stage)
{
    *stage = (struct stage){0};
    top_world_init(&stage->world);
    top_world_fill(&stage->world);
    top_world_crowd(&stage->world, 100);
    view_init(&stage->view, &(struct view_options){0});
    stage->view.arrangement = arrangement;
}

static void end(struct stage *stage)
{
    top_world_done(&stage->world);
    listing_done(&stage->listing);
    view_done(&stage->view);
    timeline_done(&stage->timeline);
    trails_done(&stage->trails);
    canvas_done(&stage->canvas);
}

/* The steps before and after do not fail; then the next attempt works. */
static int show_twice(void)
{
    struct stage stage;

    is_failing = false;
    begin(&stage);
    is_failing = true;
    int r = show(&stage);
    is_failing = false;
    stage.view.panel = PANEL_NONE;
    assert_int_equal(show(&stage), 0);
    end(&stage);
    return r;
}

static void fail_all(enum arrangement wanted, bool for_good)
{
    arrangement = wanted;
    assert_true(fail_each_allocation(show_twice, for_good, 101) > 0);
}

static void test_each_allocation_fails_once(void **state _unused_)
{
    fail_all(BY_JOB, false);
    fail_all(AS_TREE, false);
    fail_all(AS_LIST, false);
}

static void test_all_allocations_fail_from_each_on(void **state _unused_)
{
    fail_all(BY_JOB, true);
    fail_all(AS_TREE, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_all_allocations_fail_from_each_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
