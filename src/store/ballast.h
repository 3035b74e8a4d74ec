/* The ballast: a file of 1 MiB beside the database that is deleted when the disk is full. Deleting
 * rows needs free space, too, because SQLite writes the deletion to its log first. */
#pragma once

/* Creates a missing ballast file, unless the disk has too little space. Errors are ignored: sonde
 * works without one. */
void ballast_create(const char *database_path);
/* Deletes the ballast file, if there is one. */
void ballast_delete(const char *database_path);

/* Checks that SQLite can open the database safely. SQLite allocates only one byte in each page of
 * its shared-memory file. On a filesystem with blocks smaller than a page, a full disk would cause
 * a SIGBUS when the other blocks are touched. Returns 0 or -ENOSPC. */
int ballast_check_room(const char *database_path);
