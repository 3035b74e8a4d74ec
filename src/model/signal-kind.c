#include "model/signal-kind.h"

#include <signal.h>

#include "base/macros.h"

enum signal_kind {
    KIND_OTHER,
    KIND_FAULT,   /* raised by the processor or the kernel: an error in the program */
    KIND_ABORT,   /* raised by the program itself */
    KIND_KILL,    /* sent by others; the program cannot handle it */
    KIND_REQUEST, /* sent by others, to ask the program to end */
};

static const enum signal_kind kinds[] = {
    [SIGSEGV] = KIND_FAULT,  [SIGBUS] = KIND_FAULT,   [SIGILL] = KIND_FAULT,
    [SIGFPE] = KIND_FAULT,   [SIGTRAP] = KIND_FAULT,  [SIGSYS] = KIND_FAULT,
    [SIGABRT] = KIND_ABORT,  [SIGKILL] = KIND_KILL,   [SIGTERM] = KIND_REQUEST,
    [SIGINT] = KIND_REQUEST, [SIGHUP] = KIND_REQUEST, [SIGQUIT] = KIND_REQUEST,
};

static enum signal_kind kind_of(int64_t signal_num)
{
    return signal_num >= 0 && signal_num < (int64_t)ARRAY_SIZE(kinds) ? kinds[signal_num]
                                                                      : KIND_OTHER;
}

bool signal_is_fault(int64_t signal_num)
{
    return kind_of(signal_num) == KIND_FAULT;
}

bool signal_is_crash(int64_t signal_num)
{
    enum signal_kind kind = kind_of(signal_num);
    return kind == KIND_FAULT || kind == KIND_ABORT || kind == KIND_KILL;
}

bool signal_has_sender(int64_t signal_num)
{
    enum signal_kind kind = kind_of(signal_num);
    return kind == KIND_KILL || kind == KIND_REQUEST;
}
