/* A one-shot timer that can be set any number of times. */
#pragma once

#include <stdint.h>
#include <uv.h>

struct alarm;

typedef void (*alarm_fn)(void *context);

/* Creates an alarm that is not set. Returns 0 or a negative errno. */
int alarm_new(uv_loop_t *loop, alarm_fn on_alarm, void *context, struct alarm **ret);
/* Asynchronous: libuv's close callback frees the alarm. NULL is allowed. */
void alarm_close(struct alarm *alarm);

/* Calls `on_alarm` once after `msec`; replaces an earlier setting. */
void alarm_set(struct alarm *alarm, uint64_t msec);
void alarm_stop(struct alarm *alarm);
