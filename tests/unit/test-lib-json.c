/* Summaries to JSON and back, by the public functions. */
#include "unit.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "model/resource-summary.h"

#define ROUND_TRIPS 30000

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

/* xorshift64*: the same numbers in each run. */
static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Any finite double, subnormal ones and extremes included, or a number as they are in practice. */
static double random_signed(void)
{
    double value;

    if (random_bits() % 2)
        return (double)(int64_t)(random_bits() % 100000000) / 1000.0;
    do {
        uint64_t bits = random_bits();
        memcpy(&value, &bits, sizeof(value));
    } while (!isfinite(value));
    return value;
}

static double random_real(void)
{
    return fabs(random_signed());
}

static double random_or_unknown(void)
{
    return random_bits() % 3 ? random_real() : NAN;
}

static struct sonde_summary random_summary(void)
{
    return (struct sonde_summary){
        .peak_rss_mb = random_real(),
        .mean_rss_mb = random_real(),
        .peak_gpu_mem_mb = random_or_unknown(),
        .mean_gpu_util = random_or_unknown(),
        .memory_growth_mb = random_signed(),
        .num_samples = (int64_t)(random_bits() >> (1 + random_bits() % 63)),
        .duration_sec = random_real(),
        .mean_gpu_clock_mhz = random_or_unknown(),
        .mean_gpu_power_w = random_or_unknown(),
        .mean_cpu_percent = random_or_unknown(),
        .cpu_seconds = random_or_unknown(),
    };
}

static bool are_equal(const struct sonde_summary *a, const struct sonde_summary *b)
{
    for (size_t i = 0; i < resource_summary_record.field_count; i++) {
        const struct field *field = &resource_summary_record.fields[i];
        if (field->type != FIELD_REAL)
            continue;
        double x = *(const double *)((const char *)a + field->offset);
        double y = *(const double *)((const char *)b + field->offset);
        if (isnan(x) != isnan(y) || (!isnan(x) && x != y))
            return false;
    }
    return a->num_samples == b->num_samples;
}

static void test_round_trips(void **state _unused_)
{
    for (int i = 0; i < ROUND_TRIPS; i++) {
        struct sonde_summary summary = random_summary(), again;
        struct sonde_error error = {{0}};
        char *json;

        assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
        if (sonde_summary_from_json(json, strlen(json), &again, &error) < 0)
            fail_msg("%s: %s", json, error.text);
        if (!are_equal(&summary, &again))
            fail_msg("%d: not equal after %s", i, json);
        sonde_free(json);
    }
}

static void test_json_text(void **state _unused_)
{
    struct sonde_summary summary = {.peak_rss_mb = 10.5,
                                    .mean_rss_mb = 9,
                                    .peak_gpu_mem_mb = NAN,
                                    .mean_gpu_util = NAN,
                                    .memory_growth_mb = -1.25,
                                    .num_samples = 3,
                                    .duration_sec = 0.2,
                                    .mean_gpu_clock_mhz = NAN,
                                    .mean_gpu_power_w = NAN,
                                    .mean_cpu_percent = NAN,
                                    .cpu_seconds = 0};
    char *json;

    assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
    assert_string_equal(json, "{\"peak_rss_mb\":10.5,\"mean_rss_mb\":9,\"peak_gpu_mem_mb\":null,"
                              "\"mean_gpu_util\":null,\"memory_growth_mb\":-1.25,\"num_samples\":3,"
                              "\"duration_sec\":0.2,\"mean_cpu_percent\":null,\"cpu_seconds\":0}");
    sonde_free(json);
    summary.mean_gpu_clock_mhz = 1500;
    summary.mean_gpu_power_w = 0.5;
    assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
    assert_non_null(strstr(json, "\"mean_gpu_clock_mhz\":1500,\"mean_gpu_power_w\":0.5"));
    sonde_free(json);

    /* A summary that could not be read back is not written. */
    summary.peak_rss_mb = NAN;
    assert_int_equal(sonde_summary_to_json(&summary, &json), -EINVAL);
    summary.peak_rss_mb = INFINITY;
    assert_int_equal(sonde_summary_to_json(&summary, &json), -EINVAL);
    summary.peak_rss_mb = 1;
    summary.num_samples = -1;
    assert_int_equal(sonde_summary_to_json(&summary, &json), -EINVAL);
}

static double *figure_of(struct sonde_summary *summary, const struct field *field)
{
    return (double *)((char *)summary + field->offset);
}

/* Each figure in turn: a negative one is neither written nor read, except memory growth. */
static void test_negative_figures(void **state _unused_)
{
    int refused = 0;

    for (size_t i = 0; i < resource_summary_record.field_count; i++) {
        const struct field *field = &resource_summary_record.fields[i];
        struct sonde_summary summary = {0}, again;
        struct sonde_error error = {{0}};
        char *json, wrong[512], key[64];

        if (field->type != FIELD_REAL)
            continue;
        *figure_of(&summary, field) = 3.5;
        assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
        snprintf(key, sizeof(key), "\"%s\":", field->name);
        char *at = strstr(json, key);
        assert_non_null(at);
        at += strlen(key);
        snprintf(wrong, sizeof(wrong), "%.*s-%s", (int)(at - json), json, at);
        sonde_free(json);

        *figure_of(&summary, field) = -3.5;
        int r = sonde_summary_to_json(&summary, &json);
        if (strcmp(field->name, "memory_growth_mb") == 0) {
            assert_int_equal(r, 0);
            assert_string_equal(json, wrong);
            sonde_free(json);
            assert_int_equal(sonde_summary_from_json(wrong, strlen(wrong), &again, &error), 0);
            continue;
        }
        assert_int_equal(r, -EINVAL);
        assert_int_equal(sonde_summary_from_json(wrong, strlen(wrong), &again, &error), -EBADMSG);
        snprintf(key, sizeof(key), "%s: is negative, but must be 0 or more", field->name);
        assert_string_equal(error.text, key);
        refused++;
    }
    assert_int_equal(refused, 9);
}

#define REST                                                                                       \
    "\"mean_rss_mb\":1,\"memory_growth_mb\":0,\"num_samples\":1,\"duration_sec\":0,"               \
    "\"mean_gpu_util\":null"

static int read_json(const char *json, struct sonde_summary *ret, struct sonde_error *error)
{
    memset(error, 0, sizeof(*error));
    return sonde_summary_from_json(json, strlen(json), ret, error);
}

static void test_optional_fields_may_be_absent(void **state _unused_)
{
    struct sonde_summary summary;
    struct sonde_error error;

    /* A summary as the reference writes it, with an additional unknown field. */
    assert_int_equal(read_json("{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":7," REST ",\"host\":\"x\"}",
                               &summary, &error),
                     0);
    assert_true(summary.peak_rss_mb == 2 && summary.peak_gpu_mem_mb == 7);
    assert_true(isnan(summary.mean_gpu_clock_mhz) && isnan(summary.mean_gpu_power_w));
    assert_true(isnan(summary.mean_cpu_percent) && isnan(summary.cpu_seconds));
}

static void test_invalid_json_is_rejected(void **state _unused_)
{
    static const struct {
        const char *json;
        const char *words;
    } cases[] = {
        {"", "line 1"},
        {"{", "line 1, column 1"},
        {"[]", "top level: expected an object, found an array"},
        {"null", "line 1"},
        {"{\"peak_gpu_mem_mb\":null," REST "}", "peak_rss_mb: expected number, found nothing"},
        {"{\"peak_rss_mb\":null,\"peak_gpu_mem_mb\":null," REST "}", "peak_rss_mb"},
        {"{\"peak_rss_mb\":\"2\",\"peak_gpu_mem_mb\":null," REST "}",
         "peak_rss_mb: expected a number, found text"},
        {"{\"peak_rss_mb\":true,\"peak_gpu_mem_mb\":null," REST "}", "peak_rss_mb"},
        {"{\"peak_rss_mb\":NaN,\"peak_gpu_mem_mb\":null," REST "}", "line 1"},
        {"{\"peak_rss_mb\":1e999,\"peak_gpu_mem_mb\":null," REST "}", "line 1"},
        {"{\"peak_rss_mb\":2," REST "}", "peak_gpu_mem_mb: expected number, found nothing"},
        {"{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":{}," REST "}", "peak_gpu_mem_mb"},
        {"{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":1,\"mean_rss_mb\":1,\"memory_growth_mb\":0,"
         "\"num_samples\":1.5,\"duration_sec\":0,\"mean_gpu_util\":null}",
         "num_samples: expected an integer, found a fraction"},
        {"{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":1,\"mean_rss_mb\":1,\"memory_growth_mb\":0,"
         "\"num_samples\":-1,\"duration_sec\":0,\"mean_gpu_util\":null}",
         "num_samples"},
        {"{\"peak_rss_mb\":2,\"peak_rss_mb\":3,\"peak_gpu_mem_mb\":1," REST "}", "duplicate"},
        {"{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":1," REST "} x", "line 1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sonde_summary summary = {.num_samples = 42};
        struct sonde_error error;

        int r = read_json(cases[i].json, &summary, &error);
        if (r != -EBADMSG || !strstr(error.text, cases[i].words))
            fail_msg("%s: %d, %s", cases[i].json, r, error.text);
        assert_int_equal(summary.num_samples, 42); /* untouched */
        assert_int_equal(
            sonde_summary_from_json(cases[i].json, strlen(cases[i].json), &summary, NULL),
            -EBADMSG);
    }
}

/* Removes each required field in turn from a complete summary. */
static void test_every_missing_field_is_named(void **state _unused_)
{
    static const char *const required[] = {"peak_rss_mb",   "mean_rss_mb",      "peak_gpu_mem_mb",
                                           "mean_gpu_util", "memory_growth_mb", "num_samples",
                                           "duration_sec"};

    for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
        char json[512] = "{";
        struct sonde_summary summary;
        struct sonde_error error;

        for (size_t k = 0; k < ARRAY_SIZE(required); k++)
            if (k != i)
                snprintf(json + strlen(json), sizeof(json) - strlen(json), "%s\"%s\":1",
                         json[1] ? "," : "", required[k]);
        strcat(json, "}");
        assert_int_equal(read_json(json, &summary, &error), -EBADMSG);
        assert_non_null(strstr(error.text, required[i]));
    }
}

/* A valid summary, padded with blanks: only its length makes the second one invalid. */
static void test_length_is_limited(void **state _unused_)
{
    static const char text[] = "{\"peak_rss_mb\":2,\"peak_gpu_mem_mb\":7," REST "}";
    size_t length = 1 << 20;
    char *json = malloc(length + 1);
    struct sonde_summary summary;
    struct sonde_error error;

    memset(json, ' ', length + 1);
    memcpy(json, text, strlen(text));
    assert_int_equal(sonde_summary_from_json(json, length, &summary, &error), 0);
    assert_int_equal(sonde_summary_from_json(json, length + 1, &summary, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "longer than"));
    free(json);
}

/* A program's locale may use a decimal comma, JSON a point. The test builds a locale with nothing
 * else in it, about which localedef warns. */
static void test_locale(void **state _unused_)
{
    char directory[] = "/tmp/sonde-locale-XXXXXX", command[256];
    struct sonde_summary summary = {.peak_rss_mb = 1.5}, again;
    struct sonde_error error;
    char *json;

    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof(command),
             "printf 'LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\n"
             "grouping -1\nEND LC_NUMERIC\n' |"
             "localedef -c -i /dev/stdin -f ANSI_X3.4-1968 %s/comma 2>/dev/null",
             directory);
    system(command);
    setenv("LOCPATH", directory, 1);
    assert_non_null(setlocale(LC_NUMERIC, "comma"));
    assert_string_equal(localeconv()->decimal_point, ",");

    assert_int_equal(sonde_summary_to_json(&summary, &json), 0);
    assert_non_null(strstr(json, "\"peak_rss_mb\":1.5,"));
    assert_int_equal(sonde_summary_from_json(json, strlen(json), &again, &error), 0);
    assert_true(again.peak_rss_mb == 1.5);
    sonde_free(json);
    setlocale(LC_NUMERIC, "C");
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_json_text),
        cmocka_unit_test(test_negative_figures),
        cmocka_unit_test(test_optional_fields_may_be_absent),
        cmocka_unit_test(test_invalid_json_is_rejected),
        cmocka_unit_test(test_every_missing_field_is_named),
        cmocka_unit_test(test_length_is_limited),
        cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests_name("lib-json", tests, NULL, NULL);
}
