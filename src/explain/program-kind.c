#include "explain/program-kind.h"

#include <string.h>

#include "base/macros.h"
#include "model/process.h"
#include "model/signal-kind.h"

/* The failure of a child that leads to the status. */
enum failure_kind {
    ANY_FAILURE,
    NO_ANSWER, /* any, unless the program is known to answer: these may be probes */
    EXIT_BELOW_126,
    EXIT_255,
    BY_SIGNAL,
    SAME_STATUS,
    SAME_NO_ANSWER,
};

enum perseverance { STOPS, CONTINUES, CONTINUES_WITH_K };

#define ANY_STATUS (-1)

struct convention {
    const char *programs; /* separated by spaces */
    enum program_kind kind;
    int status; /* of the program */
    enum failure_kind child;
    enum perseverance perseverance;
    const char *option;   /* the convention holds only with it; NULL: always */
    const char *children; /* only failures of these lead to the status; NULL: of all */
};

/* The first line that fits holds. */
static const struct convention conventions[] = {
    {"make gmake", PROGRAM_RUNNER, 2, NO_ANSWER, CONTINUES_WITH_K, NULL, NULL},
    {"bmake ninja samu", PROGRAM_RUNNER, ANY_STATUS, NO_ANSWER, CONTINUES_WITH_K, NULL, NULL},
    {"cc gcc clang c++ g++ clang++ gfortran nvcc rustc tcc ccache collect2 mpirun mpiexec srun",
     PROGRAM_RUNNER, ANY_STATUS, NO_ANSWER, STOPS, NULL, NULL},
    /* they also try programs */
    {"cargo", PROGRAM_RUNNER, ANY_STATUS, ANY_FAILURE, STOPS, NULL, "rustc rustdoc clippy-driver"},
    {"go", PROGRAM_RUNNER, ANY_STATUS, ANY_FAILURE, STOPS, NULL, "compile asm link cgo vet"},
    {"xargs", PROGRAM_RUNNER, 123, EXIT_BELOW_126, CONTINUES, NULL, NULL},
    {"xargs", PROGRAM_RUNNER, 124, EXIT_255, CONTINUES, NULL, NULL},
    {"xargs", PROGRAM_RUNNER, 125, BY_SIGNAL, CONTINUES, NULL, NULL},
    {"xargs", PROGRAM_RUNNER, ANY_STATUS, SAME_STATUS, CONTINUES, NULL, NULL},
    {"run-parts", PROGRAM_RUNNER, 1, ANY_FAILURE, CONTINUES, NULL, NULL},
    {"timeout", PROGRAM_RUNNER, 124, ANY_FAILURE, STOPS, NULL, NULL},
    {"parallel", PROGRAM_WRAPPER, ANY_STATUS, SAME_STATUS, CONTINUES, "--halt", NULL},
    {"parallel", PROGRAM_COUNTER, ANY_STATUS, ANY_FAILURE, CONTINUES, NULL, NULL},
    {"cmake", PROGRAM_WRAPPER, ANY_STATUS, SAME_STATUS, STOPS, "--build", NULL},
    {"env nice ionice chrt taskset nohup setsid sudo doas su runuser setpriv chroot unshare nsenter"
     " timeout time flock script strace ltrace perf stdbuf fakeroot xvfb-run dbus-run-session"
     " systemd-inhibit tini dumb-init catatonit sonde",
     PROGRAM_WRAPPER, ANY_STATUS, SAME_STATUS, STOPS, NULL, NULL},
    {"npm npx yarn pnpm uv poetry", PROGRAM_WRAPPER, ANY_STATUS, SAME_NO_ANSWER, STOPS, NULL, NULL},
    /* their tests, and the checks of cmake, may run programs that must fail */
    {"pytest py.test unittest prove jest mocha vitest ctest cmake", PROGRAM_TESTER, ANY_STATUS,
     ANY_FAILURE, CONTINUES, NULL, NULL},
};

static const char answering[] =
    "grep egrep fgrep zgrep rg ag diff cmp test [ expr pgrep pidof which mountpoint git dpkg"
    " dpkg-query pkg-config systemctl getent id tty lsof fuser ping";

static const char interpreters[] = "python perl ruby node nodejs php";
static const char shells[] = "sh bash dash zsh ksh mksh ash yash fish csh tcsh busybox rbash";

static bool is_among(const char *name, const char *names)
{
    size_t length = strlen(name);

    for (const char *at = names; length && (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

/* Removes a version at the end: "gcc-13" becomes "gcc", "python3.11" becomes "python". Other names,
 * such as collect2, keep their digits. */
static void strip_version(char *name)
{
    char stripped[PROGRAM_MAX_BYTES + 1];
    size_t length = strlen(name);

    memcpy(stripped, name, length + 1);
    while (length > 0 && strchr("0123456789.", name[length - 1]))
        length--;
    if (!name[length] || length == 0)
        return;
    bool has_dash = name[length - 1] == '-';
    stripped[length - has_dash] = '\0';
    if (has_dash || is_among(stripped, interpreters))
        memcpy(name, stripped, length - has_dash + 1);
}

/* Returns the next word after `at`, which is within a word; NULL: there is none. */
static const char *next_word(const char *at)
{
    at += strcspn(at, " ");
    at += strspn(at, " ");
    return *at ? at : NULL;
}

/* Replaces one of these interpreters by its script or module: "python3 -m pytest" is pytest. */
static void find_script(const char *command, const char *programs,
                        char name[static PROGRAM_MAX_BYTES + 1])
{
    char script[PROGRAM_MAX_BYTES + 1];

    if (command[0] == '[' || !is_among(name, programs))
        return;
    const char *word = next_word(command);
    const char *text_letters = programs == shells ? "c" : "ceE";
    while (word && word[0] == '-' && strncmp(word, "-m ", 3) != 0) {
        if (strchr(text_letters, word[strcspn(word, " ") - 1]))
            return; /* the text of a script */
        word = next_word(word);
    }
    if (word && word[0] == '-')
        word = next_word(word);
    if (word && command_program(word, script))
        memcpy(name, script, sizeof(script));
}

/* Writes the name by which the table knows the program. Returns false if it has none. */
static bool find_name(const char *command, char name[static PROGRAM_MAX_BYTES + 1])
{
    if (!command || !command_program(command, name))
        return false;
    if (name[0] == '-' && name[1]) /* a login shell */
        memmove(name, name + 1, strlen(name));
    strip_version(name);
    find_script(command, interpreters, name);
    return true;
}

/* Returns whether a word of the command line is the option or begins with it. */
static bool has_option(const char *command, const char *option)
{
    for (const char *word = command; (word = next_word(word));)
        if (strncmp(word, option, strlen(option)) == 0)
            return true;
    return false;
}

/* Returns whether make or ninja has -k, also in a group of letters such as -kj4. Other letters may
 * have an argument, which ends the group. */
static bool has_letter_k(const char *command)
{
    for (const char *word = command; (word = next_word(word));)
        if (word[0] == '-' && word[1 + strspn(word + 1, "BbeinqrRsStwdj0123456789")] == 'k')
            return true;
    return has_option(command, "--keep-going");
}

/* Returns the convention for a program that ends with this status; NULL: there is none. */
static const struct convention *find_convention(const char *command, int64_t status)
{
    char name[PROGRAM_MAX_BYTES + 1];

    if (!find_name(command, name))
        return NULL;
    const char *target = strrchr(name, '-'); /* x86_64-linux-gnu-gcc */
    for (size_t i = 0; i < ARRAY_SIZE(conventions); i++) {
        const struct convention *convention = &conventions[i];
        if ((convention->status == ANY_STATUS || convention->status == status) &&
            (is_among(name, convention->programs) ||
             (target && convention->kind == PROGRAM_RUNNER &&
              is_among(target + 1, convention->programs))) &&
            (!convention->option || has_option(command, convention->option)))
            return convention;
    }
    return NULL;
}

bool program_is_shell(const char *command)
{
    char name[PROGRAM_MAX_BYTES + 1];

    return find_name(command, name) && is_among(name, shells);
}

enum program_kind program_kind(const char *command, int64_t status)
{
    const struct convention *convention = find_convention(command, status);
    char name[PROGRAM_MAX_BYTES + 1];

    if (convention)
        return convention->kind;
    bool may_be_script = !find_name(command, name) || command[0] == '[';
    return may_be_script || program_is_shell(command) ? PROGRAM_SHELL : PROGRAM_OTHER;
}

bool program_is_known(const char *command)
{
    char name[PROGRAM_MAX_BYTES + 1];

    if (!command_program(command, name))
        return false;
    strip_version(name);
    for (size_t i = 0; i < ARRAY_SIZE(conventions); i++)
        if (is_among(name, conventions[i].programs))
            return true;
    return is_among(name, shells) || is_among(name, interpreters) || is_among(name, answering);
}

bool program_or_script(const char *command, char into[static PROGRAM_MAX_BYTES + 1])
{
    char name[PROGRAM_MAX_BYTES + 1];

    if (!command || !command_program(command, into))
        return false;
    memcpy(name, into, sizeof(name));
    strip_version(name);
    if (is_among(name, interpreters))
        find_script(command, into, into);
    else
        find_script(command, shells, into);
    return true;
}

bool program_explains(const char *command, int64_t status, const struct process_event *child)
{
    const struct convention *convention = find_convention(command, status);
    bool has_exited = child->event_type == EVENT_EXIT;
    bool is_answer = child->command && program_may_answer(child);
    bool is_same =
        has_exited ? child->exit_code == status
                   : int_is_known(child->signal_num) && status == SIGNAL_STATUS(child->signal_num);
    char name[PROGRAM_MAX_BYTES + 1];

    if (!convention || (convention->children && (!find_name(child->command, name) ||
                                                 !is_among(name, convention->children))))
        return false;
    switch (convention->child) {
    case ANY_FAILURE: return true;
    case NO_ANSWER: return !is_answer;
    case EXIT_BELOW_126: return has_exited && child->exit_code < 126;
    case EXIT_255: return has_exited && child->exit_code == 255;
    case BY_SIGNAL: return !has_exited;
    case SAME_STATUS: return is_same;
    case SAME_NO_ANSWER: return is_same && !is_answer;
    }
    return false;
}

bool program_keeps_going(const char *command, int64_t status)
{
    const struct convention *convention = find_convention(command, status);

    return convention && (convention->perseverance == CONTINUES ||
                          (convention->perseverance == CONTINUES_WITH_K && has_letter_k(command)));
}

bool program_has_letter_k(const char *command)
{
    char name[PROGRAM_MAX_BYTES + 1];

    return find_name(command, name) && is_among(name, "make gmake bmake") && has_letter_k(command);
}

bool program_may_answer(const struct process_event *end)
{
    char name[PROGRAM_MAX_BYTES + 1];

    return end->event_type == EVENT_EXIT && end->exit_code == 1 &&
           (!find_name(end->command, name) || is_among(name, answering));
}

const char *program_status_meaning(const char *command, int64_t status)
{
    static const struct {
        const char *programs;
        int status;
        const char *meaning;
    } meanings[] = {
        {"pytest py.test unittest", 1, "tests failed"},
        {"pytest py.test", 2, "interrupted"},
        {"pytest py.test", 3, "internal error of pytest"},
        {"pytest py.test", 4, "wrong usage"},
        {"pytest py.test unittest", 5, "no tests found"},
        {"ctest", 8, "tests failed"},
        {"ssh", 255, "ssh failed, or the remote command exited 255"},
        {"curl", 6, "cannot resolve the host"},
        {"curl", 7, "cannot connect"},
        {"curl", 22, "HTTP error"},
        {"curl", 28, "timeout"},
    };
    char name[PROGRAM_MAX_BYTES + 1];

    if (!find_name(command, name))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].status == status && is_among(name, meanings[i].programs))
            return meanings[i].meaning;
    return NULL;
}
