/* For the tests of the writer thread: a writer on the fake store, and data for it. */
#pragma once

#include "fake-store.h"
#include "writer/store-writer.h"

/* These fail the test if they fail. */
struct store_writer *start_with(struct store_pace pace);
/* A writer that retries at once; and a daemon's. */
struct store_writer *start(void);
struct store_writer *start_staying(void);
struct store_report stop(struct store_writer *writer);
/* Its status at this moment. */
struct store_report ask(struct store_writer *writer);

/* Tick N is of the second 1000 + N. */
struct tick_box *make_tick(int64_t id, size_t events);
/* With two events each. */
void send_ticks(struct store_writer *writer, int64_t from, int64_t to);

void begin_job(struct store_writer *writer, const char *job_id);
void finish_job(struct store_writer *writer);
