#!/usr/bin/env python3
"""Fails when docs/ARCHITECTURE.md lacks a file of src/, or names one that is not there.

    check-architecture.py SOURCE_ROOT
"""
import pathlib
import re
import sys

HEADING = re.compile(r"^### ([a-z/]+): ")
NAME = re.compile(r"`([^`]+)`")


def documented(text):
    """The names under each folder's heading: {"engine/tick-builder", …}."""
    names = set()
    folder = None
    for line in text.split("\n## The files\n", 1)[1].splitlines():
        heading = HEADING.match(line)
        if heading:
            folder = heading.group(1)
        elif line.startswith("- "):
            names.update(f"{folder}/{name}" for name in NAME.findall(line.split(": ", 1)[0]))
    return names


def existing(src):
    """The same from the tree; `x.c` and `x.h` are `x`."""
    names = set()
    for path in src.glob("**/*"):
        if not path.is_file() or path.suffix not in (".c", ".h", ".py"):
            continue
        name = path.relative_to(src).as_posix()
        if name.endswith((".c", ".h")) and ".bpf." not in name:
            name = name[:-2]
        names.add(name)
    return names


def main():
    root = pathlib.Path(sys.argv[1])
    names, files = documented((root / "docs/ARCHITECTURE.md").read_text()), existing(root / "src")
    problems = [f"src/{name} is not in docs/ARCHITECTURE.md" for name in sorted(files - names)]
    problems += [f"docs/ARCHITECTURE.md names {name}, which is not in src" for name in sorted(names - files)]
    if not files:
        problems.append("no file was found")
    print("1..1")
    print(f"{'not ' if problems else ''}ok 1 - docs/ARCHITECTURE.md names the {len(files)} files of src")
    for problem in problems:
        print(f"# {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
