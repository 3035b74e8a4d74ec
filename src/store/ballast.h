/* A file that takes up room, to be given up when the disk is full: even deleting needs some, for
 * the log that the deletion is written to. */
#pragma once

/* Makes it beside the database, where it is missing and the disk has room enough to spare. It is
 * a help, not a duty: a failure is not told. */
void ballast_keep(const char *database_path);
/* Whether there was one to give up. */
int ballast_drop(const char *database_path);

/* Whether SQLite may be let loose on the disk: its shared memory is a file, of which it makes sure
 * a byte in each page only. Where a page has several blocks, a full disk shows when the others are
 * touched, and by SIGBUS. 0 or -ENOSPC. */
int ballast_check_room(const char *database_path);
