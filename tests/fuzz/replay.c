/* Runs a fuzz target over every file in the given directories, without libFuzzer: the corpus as a
 * normal test, which prints its number in TAP. Each input gets a buffer of its exact size, so that
 * the address sanitizer detects reads past it. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Whether `name` was an input, not a directory. */
static bool replay(int dir_fd, const char *name)
{
    _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        fail(name);
    if (!S_ISREG(st.st_mode))
        return false;

    size_t length = (size_t)st.st_size;
    _cleanup_free_ uint8_t *bytes = malloc(length);
    if (length && (!bytes || read(fd, bytes, length) != st.st_size))
        fail(name);
    LLVMFuzzerTestOneInput(bytes, length);
    return true;
}

/* How many inputs `path` has. */
static unsigned replay_all(const char *path)
{
    unsigned count = 0;
    DIR *dir = opendir(path);

    if (!dir)
        fail(path);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += replay(dirfd(dir), entry->d_name);
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    bool found_none = argc < 2;

    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        unsigned count = replay_all(argv[i]);
        printf("%sok %d - %u inputs in %s\n", count ? "" : "not ", i, count, argv[i]);
        found_none |= count == 0;
    }
    return found_none;
}
