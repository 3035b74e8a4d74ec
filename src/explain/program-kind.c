#include "explain/program-kind.h"

#include <string.h>

#include "base/macros.h"
#include "model/process.h"

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool program_is_runner(const char *command)
{
    static const char *const runners[] = {
        "make",     "gmake",   "bmake",    "ninja",  "samu",  "cmake",  "ctest",
        "cargo",    "go",      "bazel",    "cc",     "gcc",   "clang",  "c++",
        "g++",      "clang++", "gfortran", "nvcc",   "rustc", "tcc",    "ccache",
        "collect2", "xargs",   "timeout",  "mpirun", "srun",  "mpiexec"};
    char program[PROGRAM_MAX_BYTES + 1];

    if (!command || !command_program(command, program))
        return false;
    char *version = strrchr(program, '-'); /* gcc-13 */
    if (version && version[1] && version[1 + strspn(version + 1, "0123456789.")] == '\0')
        *version = '\0';
    const char *target = strrchr(program, '-'); /* x86_64-linux-gnu-gcc */
    return is_among(program, runners, ARRAY_SIZE(runners)) ||
           (target && is_among(target + 1, runners, ARRAY_SIZE(runners)));
}

bool program_is_shell(const char *command)
{
    static const char *const shells[] = {"sh",   "bash", "dash", "zsh",  "ksh",     "mksh", "ash",
                                         "yash", "fish", "csh",  "tcsh", "busybox", "rbash"};
    char program[PROGRAM_MAX_BYTES + 1];

    if (!command || !command_program(command, program))
        return true;
    if (command[0] == '[' && !program_is_runner(command))
        return true;
    const char *name = program[0] == '-' ? program + 1 : program; /* a login shell */
    return is_among(name, shells, ARRAY_SIZE(shells));
}
