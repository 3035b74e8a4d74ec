/* The writer's state, shared by store-writer.c (the callers' side) and writer-thread.c. */
#pragma once

#include <pthread.h>

#include "writer/store-queue.h"
#include "writer/store-upkeep.h"
#include "writer/store-writer.h"
#include "writer/write-errors.h"

struct store_writer {
    /* read-only once the thread runs */
    struct store_writer_options options;
    struct arena arena; /* owns the data of the options */
    pthread_t thread;

    /* shared, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* there is something to do */
    pthread_cond_t rest; /* nothing is being written, or the thread is done */
    struct store_queue queue;
    bool is_stopping;
    uint64_t stop_by_ns; /* monotonic deadline of all work */
    bool is_open;
    bool is_held;      /* store_writer_hold() */
    bool is_busy;      /* the thread uses the database */
    bool was_heavy;    /* the load was heavy since the queue was last empty */
    bool is_done;      /* the thread has ended */
    bool is_abandoned; /* the thread frees the writer if it ends after all */
    struct store_report report;
    struct store_error current; /* the current error; empty: none */

    /* used by the thread only */
    struct store *store;
    struct store_error error; /* the last failure */
    struct write_errors errors;
    struct store_upkeep upkeep;
};

/* The thread: opens the store, and writes the queue until the writer stops. */
void *writer_thread_run(void *writer);
/* Frees the writer, after the thread has ended or before it is started. */
void store_writer_free(struct store_writer *writer);
