#include "probe/lifecycle.h"

#include "model/field.h"

void lifecycle_event_init(struct lifecycle_event *event, enum lifecycle_kind kind)
{
    *event = (struct lifecycle_event){
        .kind = kind,
        .cpu_ns = INT_UNKNOWN,
        .user_ns = INT_UNKNOWN,
        .peak_rss_bytes = INT_UNKNOWN,
        .read_bytes = INT_UNKNOWN,
        .write_bytes = INT_UNKNOWN,
        .sender_uid = INT_UNKNOWN,
        .uid = INT_UNKNOWN,
    };
}
