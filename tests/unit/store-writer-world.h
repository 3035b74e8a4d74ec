/* For the tests of the writer thread: a writer on the fake store, and data for it. */
#pragma once

#include "fake-store.h"
#include "writer/store-writer.h"

/* These fail the test if they fail. */
struct store_writer *start_with(struct store_pace pace);
/* A writer that retries at once; and the same with a daemon's options. */
struct store_writer *start(void);
struct store_writer *start_staying(void);
struct store_report stop(struct store_writer *writer);
/* The writer's current status. */
struct store_report ask(struct store_writer *writer);

/* Tick N has the time 1000 + N s. */
struct tick_box *make_tick(int64_t id, size_t events);
/* Each tick has two events. */
void send_ticks(struct store_writer *writer, int64_t from, int64_t to);

void begin_job(struct store_writer *writer, const char *job_id);
void finish_job(struct store_writer *writer);
