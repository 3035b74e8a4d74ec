/* Private to the reader: its state, requests and decoding. */
#pragma once

#include "base/json-writer.h"
#include "client/reader.h"

/* Reading a week of a busy machine takes about ten seconds. */
#define LONG_TIMEOUT_MSEC 60000

/* A result beside 0 and negative errnos: the daemon cannot answer; query the user's own database,
 * which is open. */
#define READ_STORE 1

struct reader {
    struct client *client;            /* NULL: there is no daemon, or it has failed */
    struct store_reader *store;       /* NULL: not opened, or there is none */
    char *database_path;              /* NULL: there is none */
    enum reader_source answered;      /* the source of the current or last query */
    int reply_error;                  /* the error in the last answer of the daemon; 0: none */
    char error[512];                  /* see reader_strerror() */
    char note[512];                   /* see reader_note() */
    struct client_error daemon_error; /* why permission was denied; empty: it was not */
};

/* Chooses the source before each query. Returns 0 (the daemon), READ_STORE or a negative errno. */
int reader_begin(struct reader *reader);
/* Called after a query of the own database that returned `r`: sets the source and the error.
 * Returns `r`. */
int reader_end(struct reader *reader, int r);

/* Sends a request to the daemon. Returns 0, READ_STORE, -ENOENT (no such run) or another negative
 * errno. */
int reader_request(struct reader *reader, const char *method, const struct text *params,
                   struct arena *arena, struct rpc_reply *ret);
/* Decodes a record of an answer. Returns 0, READ_STORE or a negative errno. */
int reader_decode(struct reader *reader, const struct record *record, const char *json,
                  size_t length, struct arena *arena, void *ret);
/* Both together, for an answer that is one record or an array of records. */
int reader_request_record(struct reader *reader, const char *method, const struct text *params,
                          const struct record *record, struct arena *arena, void *ret);
int reader_request_list(struct reader *reader, const char *method, const struct text *params,
                        const struct record *record, struct arena *arena, struct any_list *ret);

/* Opens the user's own database. Returns whether there is one. */
bool reader_has_store(struct reader *reader);
/* Notes that the own database answered instead of the daemon, whose query returned `r`. */
void reader_note_fallback(struct reader *reader, int r);
