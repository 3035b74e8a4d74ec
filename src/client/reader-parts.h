/* Private to the reader: its state, requests and decoding. */
#pragma once

#include "base/json-writer.h"
#include "client/reader.h"

/* Reading a week of a busy machine takes about ten seconds. */
#define LONG_TIMEOUT_MSEC 60000

/* Beside 0 and errors: the daemon did not answer, and the own database is open. */
#define ASK_STORE 1

struct reader {
    struct client *client;      /* NULL: there is none, or it has failed */
    struct store_reader *store; /* NULL: not opened, or there is none */
    char *database_path;        /* NULL: there is none */
    enum reader_source answered;
    char error[512];
    char note[512];
    struct client_error unasked; /* empty: no daemon failed */
};

/* Chooses the source before each query. Returns 0 (the daemon), ASK_STORE or a negative errno. */
int reader_begin(struct reader *reader);
/* Sets the error after a query of the own database. */
int reader_end(struct reader *reader, int r);

/* Sends a request to the daemon. Returns 0, ASK_STORE, -ENOENT (no such run) or another negative
 * errno. */
int reader_ask(struct reader *reader, const char *method, const struct text *params,
               struct arena *arena, struct rpc_reply *ret);
int reader_decode(struct reader *reader, const struct record *record, const char *json,
                  size_t length, struct arena *arena, void *ret);
int reader_ask_record(struct reader *reader, const char *method, const struct text *params,
                      const struct record *record, struct arena *arena, void *ret);
int reader_ask_list(struct reader *reader, const char *method, const struct text *params,
                    const struct record *record, struct arena *arena, struct any_list *ret);

/* Opens the user's own database. Returns whether there is one. */
bool reader_has_store(struct reader *reader);
/* Notes that the own database answered; the daemon returned `r`. */
void reader_note_own(struct reader *reader, int r);
