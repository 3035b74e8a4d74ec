/* What the files of the reader share: who is asked, and how answers are read. */
#pragma once

#include "base/json-writer.h"
#include "client/reader.h"

/* A week of a busy machine is read in some ten seconds. */
#define LONG_TIMEOUT_MSEC 60000

/* Beside 0 and errors: the daemon has not answered, and the own database is open. */
#define ASK_STORE 1

struct reader {
    struct client *client;      /* NULL: there is none, or it has failed */
    struct store_reader *store; /* NULL: not opened, or there is none */
    char *database_path;        /* NULL: there is none */
    enum reader_source answered;
    char error[512];
    char note[512];
    struct client_error unasked; /* empty: all daemons that are there can be */
};

/* Before each question: who is asked first. 0: the daemon; ASK_STORE; or a negative errno. */
int reader_begin(struct reader *reader);
/* After the own database was asked: whose words an error is told in. */
int reader_end(struct reader *reader, int r);

/* The daemon is asked. 0, ASK_STORE, -ENOENT (there is no such run) or another negative errno. */
int reader_ask(struct reader *reader, const char *method, const struct text *params,
               struct arena *arena, struct rpc_reply *ret);
int reader_decode(struct reader *reader, const struct record *record, const char *json,
                  size_t length, struct arena *arena, void *ret);
int reader_ask_record(struct reader *reader, const char *method, const struct text *params,
                      const struct record *record, struct arena *arena, void *ret);
int reader_ask_list(struct reader *reader, const char *method, const struct text *params,
                    const struct record *record, struct arena *arena, struct any_list *ret);

/* Whether there is a database of the user's own, which is opened. */
bool reader_has_store(struct reader *reader);
/* The own database knows more of it than the daemon, which answered with `r`. */
void reader_note_own(struct reader *reader, int r);
