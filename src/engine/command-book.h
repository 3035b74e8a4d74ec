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
};

void command_book_done(struct command_book *book);

/* Reads what a process has just executed: at the next snapshot it may be gone. At most some hundred
 * between two boxes are read. */
void command_book_read(struct command_book *book, struct tick_box *box, struct process_event *exec);

/* Names the processes of the box's events, those that are still there by the box's snapshot, and
 * takes that over. A command line that nobody has seen
 * stays unknown, and so does one that there is no memory for. */
void command_book_name(struct command_book *book, struct tick_box *box);
