/* Processes to look at: children that have come into a certain state, and stay in it until they are
 * ended. */
#pragma once

#include <sys/types.h>

#define MB (1024 * 1024)

/* What a process of the zoo does before it says that it is ready. */
typedef void (*habit_fn)(void);

void do_nothing(void);
void have_threads(void);   /* 7 more */
void open_files(void);     /* 700 */
void lower_fd_limit(void); /* to 64 */
void touch_memory(void);   /* 48 MB, of which it gives 24 back; and 8 MB shared */
void leave_zombie(void);
void spin(void); /* until it has had 60 ms of CPU time */
/* The first thread ends, and the process lives on. */
void end_leader(void);

/* One of each: these, and others. */
#define HABIT_COUNT 13
extern const habit_fn habits[HABIT_COUNT];

struct animal {
    pid_t pid;
};

/* Once it is ready. It dies with us, if not before. */
struct animal animal_start(habit_fn habit);
void animal_end(const struct animal *animal);

/* Waits until no thread of a process runs; a zombie does not. */
void await_sleep(pid_t pid);

/* For habits of one's own: where to say that one is ready, and what to do then. */
extern int ready_fd;
void wait_for_ever(void);
