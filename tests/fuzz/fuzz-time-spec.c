/* In any time zone, an accepted time is in range, and blanks around the text make no difference. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/time-spec.h"

static void set_zone(uint8_t choice)
{
    static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3",
                                        "EST5EDT,M3.2.0,M11.1.0", "<+1245>-12:45"};
    setenv("TZ", zones[choice % (sizeof(zones) / sizeof(zones[0]))], 1);
    tzset();
}

static void check(const char *text, double now)
{
    _cleanup_free_ char *padded = NULL;
    double moment = -1, again = -1;

    int r = time_spec_parse(text, now, &moment);
    assert(r == 0 || r == -EINVAL || r == -ERANGE);
    assert(r == 0 ? moment >= 0 && moment < 253402300800.0 : moment == -1);
    if (asprintf(&padded, " \t%s ", text) < 0)
        return;
    assert(time_spec_parse(padded, now, &again) == r);
    assert(again == moment);
}

/* The first byte chooses the zone, the second whether it is summer. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length < 2)
        return 0;
    _cleanup_free_ char *text = strndup((const char *)bytes + 2, length - 2);

    set_zone(bytes[0]);
    if (text)
        check(text, bytes[1] & 1 ? 1782000000.25 : 1768000000);
    return 0;
}
