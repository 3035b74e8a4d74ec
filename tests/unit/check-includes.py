#!/usr/bin/env python3
"""Fails when an include points the wrong way.

    check-includes.py SRC_DIR        checks the tree

Folders are layers (docs/ARCHITECTURE.md): a folder includes only itself and folders to its left.
Some libraries may be used only in some folders.
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
LIBRARIES = {
    "uv.h": {"loop", "trace", "engine", "run", "client", "daemon", "top", "web"},
    "sqlite3.h": {"store"},
    "curl/curl.h": {"fleet"},
    "microhttpd.h": {"web"},
    "ncurses.h": {"top"},
    "curses.h": {"top"},
    "bpf/libbpf.h": {"probe"},
    "yaml.h": {"config"},
    "jansson.h": {"model", "rpc", "client", "lib"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


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


def check_line(folder, line):
    """What is wrong with one line of a file in `folder`, or None."""
    match = INCLUDE.match(line)
    if not match:
        return None
    own, system = match.groups()
    if system:
        allowed = LIBRARIES.get(system)
        if allowed is not None and folder not in allowed:
            return f"<{system}> belongs to {', '.join(sorted(allowed))}"
        return None
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
    for path in sorted(src.glob("*/**/*.[ch]")):
        folder = path.relative_to(src).parts[0]
        if visible_from(folder) is None:
            problems.append(f"{path}: folder '{folder}' has no layer in LAYERS")
            continue
        files += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            problem = check_line(folder, line)
            if problem:
                problems.append(f"{path}:{number}: {problem}")
    return files, problems


def self_test():
    wrong = [("base", '#include "model/field.h"'), ("model", '#include "probe/procfs.h"'),
             ("probe", '#include "jobs/registry.h"'), ("sample", '#include "engine/engine.h"'),
             ("cli", "#include <uv.h>"), ("cli", "#include <sqlite3.h>"), ("stats", '#include "model/field.h"'),
             ("engine", '#include "tracing.h"'), ("engine", '#include "run/job-run.h"'),
             ("writer", '#include "trace/tracing.h"'), ("writer", '#include "report/table.h"'),
             ("trace", '#include "store/store.h"'), ("sample", '#include "detect/finding.h"'), ("query", '#include "client/reader.h"')]
    right = [("cli", '#include "engine/engine.h"'), ("sample", '#include "probe/procfs.h"'),
             ("store", '#include "config/config.h"'), ("writer", '#include "store/store.h"'),
             ("engine", "#include <uv.h>"), ("base", "#include <stdio.h>"), ("lib", '#include "sonde/sonde.h"')]
    return ([f"not caught: {case}" for case in wrong if check_line(*case) is None] +
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
