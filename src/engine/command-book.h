/* Which command line each process of a run had at the last snapshot: so that an event can name a
 * process that is gone. */
#pragma once

#include "base/map.h"
#include "engine/tick-box.h"

/* Zero-initialised is empty and valid. */
struct command_book {
    struct arena arena;
    struct map known;    /* pid → command line, as of the last snapshot */
    struct map present;  /* pid → struct process_metric of the snapshot at hand */
    struct map executed; /* pid → its last exec among the events at hand */
    unsigned reads;      /* since the last box */
    pid_t first_pid;     /* of `first_command`; 0: none */
    char *first_command;
};

void command_book_done(struct command_book *book);

/* What a process will execute first: for an event that is read when the process has ended. Without
 * memory it is not noted. */
void command_book_expect(struct command_book *book, pid_t pid, const char *command);

/* Names what a process has just executed, which may be gone at the next snapshot: by `reported`, or
 * if that is NULL, by reading it. At most some hundred between two boxes are read. */
void command_book_name_exec(struct command_book *book, struct tick_box *box, const char *reported,
                            struct process_event *exec);

/* Names the processes of the box's events, those that are still there by the box's snapshot, and
 * takes that over. A command line that nobody has seen
 * stays unknown, and so does one that there is no memory for. */
void command_book_name(struct command_book *book, struct tick_box *box);
