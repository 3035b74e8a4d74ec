#!/usr/bin/env python3
"""Fails when an include points the wrong way.

    check-includes.py SRC_DIR        checks the tree

Folders are layers (docs/ARCHITECTURE.md): a folder includes only itself and folders to its left.
Some libraries may be used only in some folders. The readers in probe take a root directory, so no
string there begins with /proc.
"""
import pathlib
import re
import sys

# Each group sees all groups before it; folders of one group do not see each other.
LAYERS = [
    ["base"],
    ["stats", "model", "loop"],
    ["config"],
    ["probe", "jobs", "detect", "explain", "learn", "store", "report", "rpc"],
    ["sample", "trace", "writer", "fleet"],
    ["lib", "engine"],
    ["run"],
    ["query"],
    ["client"],
    ["daemon", "top", "web"],
    ["cli"],
]
# These use only some folders of the group of `probe`. `trace` sums up system calls by run, so it knows runs.
SOURCES = {
    "sample": {"probe", "jobs"},
    "trace": {"probe", "jobs"},
    "writer": {"store"},
    "fleet": {"store"},
}
# A name that ends in a slash stands for all headers below it.
LIBRARIES = {
    "uv.h": {"loop", "trace", "engine", "run", "client", "daemon", "top", "web"},
    "sqlite3.h": {"store"},
    "curl/": {"fleet"},
    "microhttpd.h": {"web"},
    "ncurses.h": {"top"},
    "curses.h": {"top"},
    "bpf/": {"probe/bpf"},
    "yaml.h": {"config"},
    "jansson.h": {"model", "rpc", "client"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
PROC_LITERAL = re.compile(r'"/proc\b')
FOLDERS = {folder for group in LAYERS for folder in group}


def visible_from(folder):
    seen = {folder}
    for group in LAYERS:
        if folder in group:
            return seen
        if "probe" in group and folder in SOURCES:
            seen.update(SOURCES[folder])
        else:
            seen.update(group)
    return None


def check_library(place, header):
    for name, allowed in LIBRARIES.items():
        is_of_library = header.startswith(name) if name.endswith("/") else header == name
        if is_of_library and not any(f"{place}/".startswith(f"{folder}/") for folder in allowed):
            return f"<{header}> belongs to {', '.join(sorted(allowed))}"
    return None


def check_line(place, line):
    """What is wrong with one line of a file in `place`, a folder of src or of one of its folders, or None."""
    folder = place.split("/")[0]
    match = INCLUDE.match(line)
    if not match:
        if folder == "probe" and PROC_LITERAL.search(line):
            return "a string begins with /proc: use the root directory that is passed in"
        return None
    own, system = match.groups()
    if system:
        if system.split("/")[0] in FOLDERS and "/" in system:
            return f'<{system}> is a header of sonde: use quotes'
        return check_library(place, system)
    target = own.split("/")[0]
    if "/" not in own:
        return f'"{own}" has no folder'
    if own.startswith("sonde/"):
        return None
    if target not in visible_from(folder):
        return f'"{own}": {folder} may not see {target}'
    return None


def check_tree(src):
    problems = []
    files = 0
    for path in sorted(src.glob("**/*.[ch]")):
        place = path.relative_to(src).parent
        if place == pathlib.Path("."):
            problems.append(f"{path}: is in no folder")
            continue
        if visible_from(place.parts[0]) is None:
            problems.append(f"{path}: folder '{place.parts[0]}' has no layer in LAYERS")
            continue
        files += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            problem = check_line(place.as_posix(), line)
            if problem:
                problems.append(f"{path}:{number}: {problem}")
    return files, problems


def self_test():
    wrong = [("base", '#include "model/field.h"'), ("model", '#include "probe/procfs.h"'),
             ("probe", '#include "jobs/registry.h"'), ("sample", '#include "engine/engine.h"'),
             ("cli", "#include <uv.h>"), ("cli", "#include <sqlite3.h>"), ("stats", '#include "model/field.h"'),
             ("store", "#include <curl/curl.h>"), ("daemon", "#include <microhttpd.h>"), ("report", "#include <ncurses.h>"),
             ("cli", "#include <curses.h>"), ("probe", "#include <bpf/libbpf.h>"), ("engine", "#include <bpf/bpf.h>"),
             ("probe/gpu", "#include <bpf/bpf.h>"), ("cli", "#include <yaml.h>"), ("lib", "#include <jansson.h>"),
             ("base", "#include <model/field.h>"), ("cli", "#include <model/field.h>"),
             ("probe", 'open("/proc/stat")'), ("probe/bpf", 'stat("/proc", &st)'),
             ("engine", '#include "tracing.h"'), ("engine", '#include "run/job-run.h"'),
             ("writer", '#include "trace/tracing.h"'), ("writer", '#include "report/table.h"'),
             ("trace", '#include "store/store.h"'), ("sample", '#include "detect/finding.h"'), ("query", '#include "client/reader.h"')]
    right = [("cli", '#include "engine/engine.h"'), ("sample", '#include "probe/procfs.h"'),
             ("store", '#include "config/config.h"'), ("writer", '#include "store/store.h"'),
             ("engine", "#include <uv.h>"), ("engine/gpu", "#include <uv.h>"), ("base", "#include <stdio.h>"),
             ("probe/bpf", "#include <bpf/bpf_helpers.h>"), ("model", "#include <jansson.h>"), ("config", '#define R "/proc"'),
             ("probe", '"differs from /proc"'), ("probe", '#include "probe/proc-stat.h"'), ("lib", '#include "sonde/sonde.h"')]
    untested = [name for name in LIBRARIES if not any(f"<{name}" in line for _, line in wrong)]
    return ([f"no case for {name}" for name in untested] +
            [f"not caught: {case}" for case in wrong if check_line(*case) is None] +
            [f"wrongly caught: {case}" for case in right if check_line(*case) is not None])


def main():
    results = [("an include that points the wrong way is caught", self_test())]
    files, problems = check_tree(pathlib.Path(sys.argv[1]))
    results.append((f"no include of {files} files points the wrong way", problems))
    if not files:
        problems.append("no file was found")
    print(f"1..{len(results)}")
    for number, (name, found) in enumerate(results, 1):
        print(f"{'not ' if found else ''}ok {number} - {name}")
        for problem in found:
            print(f"# {problem}")
    return 1 if any(found for _, found in results) else 0


if __name__ == "__main__":
    sys.exit(main())
