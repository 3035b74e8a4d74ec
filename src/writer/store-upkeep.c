#include "writer/store-upkeep.h"

#include "base/clock.h"

/* Time to the next retention after one was interrupted because ticks were waiting. */
#define RETAIN_AGAIN_NS NS_PER_SEC
/* The slice at the end of a run: too short to be noticed, long enough to make progress. */
#define RETAIN_SLICE_NS (20 * NS_PER_MSEC)

bool store_upkeep_may_make_room(struct store_upkeep *upkeep, uint64_t every_ns)
{
    uint64_t now_ns = clock_mono_ns();

    if (now_ns < upkeep->make_room_at_ns)
        return false;
    upkeep->make_room_at_ns = now_ns + every_ns;
    return true;
}

int store_upkeep_retain(struct store_upkeep *upkeep, struct store *store, uint64_t every_ns)
{
    double now = ns_to_sec(clock_real_ns());
    int r = 0;

    if (!store_retained_lately(store, now)) {
        upkeep->is_retaining = true;
        r = store_retain(store, now);
        upkeep->is_retaining = false;
    }
    upkeep->has_retained = r == 0;
    upkeep->retain_at_ns = clock_mono_ns() + (r == 1 ? RETAIN_AGAIN_NS : every_ns);
    return r;
}

int store_upkeep_retain_slice(struct store_upkeep *upkeep, struct store *store)
{
    if (upkeep->has_retained)
        return 0;
    upkeep->retain_at_least_until_ns = clock_mono_ns() + RETAIN_SLICE_NS;
    return store_upkeep_retain(upkeep, store, 0);
}
