/* A file that takes up room, to be given up when the disk is full: even deleting needs some, for
 * the log that the deletion is written to. */
#pragma once

/* Makes it beside the database, where it is missing and the disk has room enough to spare. It is
 * a help, not a duty: a failure is not told. */
void ballast_keep(const char *database_path);
/* Whether there was one to give up. */
int ballast_drop(const char *database_path);
