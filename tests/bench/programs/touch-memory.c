/* Touches MEGABYTES of memory, holds them for HOLD_MS, frees them, and lives on a little: the short
 * peak of a longer job. Uses huge pages where the kernel has them, so that allocating is quick.
 *
 *   touch-memory MEGABYTES HOLD_MS
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE  (2ul << 20)
#define SMALL_PAGE 4096
#define AFTER_MS   300

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t size = strtoul(argv[1], NULL, 10) << 20;
    char *memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    madvise(memory, size + HUGE_PAGE, MADV_HUGEPAGE);
    for (size_t i = 0; i < size; i += SMALL_PAGE)
        memory[i] = 1;
    pause_ms(atol(argv[2]));
    munmap(memory, size + HUGE_PAGE);
    pause_ms(AFTER_MS);
    return 0;
}
