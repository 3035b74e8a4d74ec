/* Uses CPU time and ends:  spin MILLISECONDS */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    long until_ns = argc > 1 ? atol(argv[1]) * 1000000 : 0;
    struct timespec used;

    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_sec * 1000000000 + used.tv_nsec < until_ns);
    return 0;
}
