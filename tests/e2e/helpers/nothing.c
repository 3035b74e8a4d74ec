/* A program that ends at once, for storms of processes. */
#include <sys/syscall.h>

_Noreturn void _start(void);

_Noreturn void _start(void)
{
#if defined(__x86_64__)
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0));
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_exit_group;
    register long status __asm__("x0") = 0;
    __asm__ volatile("svc 0" : : "r"(number), "r"(status));
#else
#error "exit_group(0) of this processor"
#endif
    __builtin_unreachable();
}
