/* A one-shot timer that can be set again and again. Its memory is freed in libuv's close callback.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

struct alarm;

typedef void (*alarm_fn)(void *context);

/* Not set at first. 0 or a negative errno. */
int alarm_new(uv_loop_t *loop, alarm_fn on_alarm, void *context, struct alarm **ret);
void alarm_close(struct alarm *alarm);

/* Rings once, so many milliseconds from now; whatever it was set to before is forgotten. */
void alarm_set(struct alarm *alarm, uint64_t msec);
void alarm_stop(struct alarm *alarm);
