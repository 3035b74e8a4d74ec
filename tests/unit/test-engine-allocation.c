/* A reload of the engine's settings while each allocation fails: it changes everything or nothing,
 * and never keeps words of redaction that the caller frees. Linked with -Wl,--wrap for the
 * allocators. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/engine-parts.h"
#include "failing-allocator.h"
#include "model/redact.h"

static struct engine *engine;
static struct text_list *words; /* in force */
static unsigned reloads;

/* On the heap, so that the sanitizers find a use of words that are gone. */
static struct text_list *make_words(const char *word)
{
    struct text_list *list = malloc(sizeof(*list));

    assert_non_null(list);
    *list = (struct text_list){.items = malloc(sizeof(char *)), .count = 1};
    assert_non_null(list->items);
    list->items[0] = word;
    return list;
}

static void free_words(struct text_list *list)
{
    free(list->items);
    free(list);
}

static struct engine_settings settings_of(uint64_t seconds, const struct text_list *redact)
{
    return (struct engine_settings){.interval_ns = seconds * NS_PER_SEC,
                                    .scope = SCOPE_JOBS,
                                    .syscalls = SYSCALLS_CHOICE_OFF,
                                    .gpus = SWITCH_OFF,
                                    .redact = redact};
}

static void add_event(void)
{
    const struct event_owner owner = {.job_id = "job-1", .run_id = "run-1", .uid = 1000};
    struct process_event sent;

    record_init(&process_event_record, &sent);
    sent.signal_num = 15;
    sent.sender_command = "kill token=abc key=abc";
    tick_builder_add_signal(&engine->builder, owner, 1000000, &sent, 1);
}

/* A reload with other words and another interval. */
static int reload(void)
{
    long site = countdown;

    is_failing = false;
    struct text_list *other = make_words(strcmp(words->items[0], "key") == 0 ? "token" : "key");
    const struct engine_settings settings = settings_of(1000 + reloads++, other);
    add_event();
    start_failing(site, fails_for_good);
    int r = engine_configure(engine, &settings);
    is_failing = false;
    struct text_list *kept = r == 0 ? other : words;
    free_words(r == 0 ? words : other);
    words = kept;
    assert_ptr_equal(engine->builder.redaction.words, words);
    assert_ptr_equal(engine->settings.redact, words);

    /* Without memory a text is unknown, never as it was. */
    const struct process_event *last =
        &engine->builder.box->tick.events.items[engine->builder.box->tick.events.count - 1];
    if (r == 0 && last->sender_command)
        assert_non_null(strstr(last->sender_command, "***"));
    assert_true(redaction_set(&engine->builder.redaction, NULL)); /* the words can be read */
    redaction_set(&engine->builder.redaction, words);
    return r;
}

static void test_reload_without_memory(void **state _unused_)
{
    struct engine_options options = {.only_jobs = true, .wants_events = true};
    uv_loop_t loop;

    words = make_words("token");
    options.settings = settings_of(999, words);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(registry_new(&options.registry), 0);
    assert_int_equal(engine_start(&loop, &options, &engine), 0);
    fail_each_allocation(reload, false, 3);
    fail_each_allocation(reload, true, 3);
    engine_close(engine);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    registry_free(options.registry);
    free_words(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reload_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
