#include "loop/alarm.h"

#include <errno.h>
#include <stdlib.h>

struct alarm {
    uv_timer_t timer;
    alarm_fn on_alarm;
    void *context;
};

static void on_timer(uv_timer_t *timer)
{
    struct alarm *alarm = timer->data;
    alarm->on_alarm(alarm->context);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int alarm_new(uv_loop_t *loop, alarm_fn on_alarm, void *context, struct alarm **ret)
{
    struct alarm *alarm = calloc(1, sizeof(*alarm));

    if (!alarm)
        return -ENOMEM;
    *alarm = (struct alarm){.on_alarm = on_alarm, .context = context};
    uv_timer_init(loop, &alarm->timer);
    alarm->timer.data = alarm;
    *ret = alarm;
    return 0;
}

void alarm_close(struct alarm *alarm)
{
    if (alarm)
        uv_close((uv_handle_t *)&alarm->timer, on_closed);
}

void alarm_set(struct alarm *alarm, uint64_t msec)
{
    uv_update_time(alarm->timer.loop); /* the running callback may have taken long */
    uv_timer_start(&alarm->timer, on_timer, msec, 0);
}

void alarm_stop(struct alarm *alarm)
{
    uv_timer_stop(&alarm->timer);
}
