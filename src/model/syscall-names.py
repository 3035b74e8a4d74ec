#!/usr/bin/env python3
"""Writes the names of system calls by number, as two C arrays, out of the system's own headers.

usage: syscall-names.py CPU_FAMILY COMPILER [ARGUMENT…]

Calls that are newer than the headers are added from a list: since 424 a new call has the same number
on all architectures. A kernel may be newer than that, too: then a call goes by its number.
"""
import re
import subprocess
import sys

# 32-bit programs on a 64-bit kernel have numbers of their own; not every system has the header.
HEADERS = {"x86_64": ("asm/unistd_64.h", "asm/unistd_32.h")}
DEFAULT_HEADERS = ("asm/unistd.h", None)

COMMON_SINCE = 424
COMMON = """
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen
    fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset
    landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
    set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait
    futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal
    setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr
""".split()
NOT_CALLS = {"syscalls", "arch_specific_syscall"}


def macros_of(compiler, header):
    text = subprocess.run([*compiler, "-E", "-dM", "-include", header, "-xc", "/dev/null"],
                          check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^#define (\w+) +(.+)$", text, re.MULTILINE))


def number_of(macros, value):
    while value in macros:
        value = macros[value]
    sum_of = re.fullmatch(r"\((\w+) *\+ *(\d+)\)", value)
    if sum_of:
        return number_of(macros, sum_of[1]) + int(sum_of[2])
    return int(value, 0)


def names_of(compiler, header):
    macros = macros_of(compiler, header) if header else {}
    names = dict(enumerate(COMMON, COMMON_SINCE))
    for macro, value in macros.items():
        if macro.startswith("__NR_") and macro[5:] not in NOT_CALLS:
            names[number_of(macros, value)] = macro[5:]
    return names


def write_names(title, names):
    print(f"static const char *const {title}[] = {{")
    for number, name in sorted(names.items()):
        print(f'    [{number}] = "{name}",')
    print("};")


def main():
    family, compiler = sys.argv[1], sys.argv[2:]
    native, compat = HEADERS.get(family, DEFAULT_HEADERS)
    print("/* Made by syscall-names.py out of the system's headers. */")
    write_names("native_names", names_of(compiler, native))
    write_names("compat_names", names_of(compiler, compat))


main()
