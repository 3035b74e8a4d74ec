/* Processes to observe: children that reach a certain state and stay in it until the test ends
 * them. */
#pragma once

#include <sys/types.h>

#define MB (1024 * 1024)

/* What a process does before it reports that it is ready. */
typedef void (*habit_fn)(void);

void do_nothing(void);
void have_threads(void);   /* 7 more */
void open_files(void);     /* 700 */
void lower_fd_limit(void); /* to 64 */
void touch_memory(void);   /* 48 MB, of which it frees 24; and 8 MB shared */
void leave_zombie(void);
void spin(void); /* until it has used 60 ms of CPU time */
/* The first thread ends, and the process lives on. */
void end_leader(void);

/* One process of each kind. */
#define HABIT_COUNT 13
extern const habit_fn habits[HABIT_COUNT];

struct animal {
    pid_t pid;
};

/* Returns when the process is ready. It dies with this process at the latest. */
struct animal animal_start(habit_fn habit);
void animal_end(const struct animal *animal);

/* Waits until no thread of a process runs; a zombie does not. */
void await_sleep(pid_t pid);

/* For functions of a test: where a process reports that it is ready, and what it does then. */
extern int ready_fd;
void wait_for_ever(void);
