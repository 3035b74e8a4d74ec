#include "model/gap.h"

#include "base/macros.h"

static const char *const gap_kind_names[] = {
    [GAP_NONE] = NULL,
    [GAP_MISSED_TICKS] = "missed_ticks",
    [GAP_SUSPEND] = "suspend",
    [GAP_CLOCK_STEP] = "clock_step",
    [GAP_NOT_STORED] = "not_stored",
    [GAP_EVENTS] = "events",
};

static const struct field gap_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct gap, member, type, __VA_ARGS__)
    FIELD(kind, FIELD_ENUM, .required = true, .names = gap_kind_names,
          .name_count = ARRAY_SIZE(gap_kind_names),
          .meaning = "missed_ticks, suspend, clock_step, not_stored or events"),
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "end of the gap"),
    FIELD(seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.001,
          .meaning = "duration of the gap, or the size of a clock step"),
    FIELD(lost, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of missing snapshots (not_stored) or events"),
    FIELD(reason, FIELD_TEXT, .meaning = "reason as text"),
#undef FIELD
};
const struct record gap_record = RECORD_OF(struct gap, "Gap", gap_fields);

/* Only the boot clock counts a suspend. The clocks are read one after the other and differ by
 * microseconds; a real suspend takes longer than this. */
#define SUSPEND_MIN_NS (NS_PER_SEC / 2)
/* NTP slews by at most 500 ppm, which is 2.5 ms in 5 s. A larger difference means that the clock
 * was set. */
#define STEP_MIN_NS (NS_PER_SEC / 2)

struct gap gap_between(const struct moment *earlier, const struct moment *later,
                       uint64_t interval_ns)
{
    uint64_t mono_ns = later->mono_ns - earlier->mono_ns;
    int64_t slept_ns = (int64_t)(later->boot_ns - earlier->boot_ns - mono_ns);
    int64_t stepped_ns =
        (int64_t)(later->real_ns - earlier->real_ns) - (int64_t)(later->boot_ns - earlier->boot_ns);
    struct gap gap = {.timestamp = ns_to_sec(later->real_ns), .lost = INT_UNKNOWN};

    if (slept_ns > (int64_t)SUSPEND_MIN_NS) {
        gap.kind = GAP_SUSPEND;
        gap.seconds = ns_to_sec((uint64_t)slept_ns);
    } else if (stepped_ns > (int64_t)STEP_MIN_NS || stepped_ns < -(int64_t)STEP_MIN_NS) {
        gap.kind = GAP_CLOCK_STEP;
        gap.seconds = (double)stepped_ns / (double)NS_PER_SEC;
    } else if (interval_ns && mono_ns > interval_ns * 3 / 2) { /* nearer to the next tick */
        gap.kind = GAP_MISSED_TICKS;
        gap.seconds = ns_to_sec(mono_ns - interval_ns);
    }
    return gap;
}
