#!/usr/bin/env python3
"""Fails when a file contains an expression that sonde's texts, comments and names avoid.

    check-words.py SOURCE_ROOT        checks the tree

The expressions stand for plainer ones: the error, the client, the report. A line where one of them is
the ordinary word (the user `nobody`, a quotation) carries the marker `words: plain` in a comment. words: plain
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PLACES = ["src", "include", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples", "python", "packaging",
          "tests", "web"]
# Recorded data: sonde reads it, people do not.
RECORDED = ["tests/fixtures", "tests/fuzz/corpus"]
# Without git: what a build or an interpreter leaves behind.
GENERATED = {"__pycache__", "node_modules", "build", "dist"}
MARKER = "words: plain"

EXPRESSIONS = [
    "nobody", "whoever", "somebody", "forebears?", "told",  # words: plain
    "tells? (?:of|how|what|why|when|more)", "in words", "takes no words",  # words: plain
    "yet to come", "let(?:ting)? go of",  # words: plain
]
# What separates the words of an expression: white space, `_` in a name, and a line break with the sign
# that starts the next line of a comment.
SEPARATOR = r"(?:_|[ \t]+|[ \t]*\n[ \t]*(?://+|#+|\*+|--)?[ \t]*)"
# Letters and digits make a word; `_` ends one, so that parts of names are found too.
BANNED = re.compile("(?<![A-Za-z0-9])(?:" + "|".join(EXPRESSIONS).replace(" ", SEPARATOR) + ")(?![A-Za-z0-9])",
                    re.IGNORECASE)


def check_text(text):
    """Pairs of a line number and the expression found there."""
    lines = text.split("\n")
    found = []
    for match in BANNED.finditer(text):
        first = text.count("\n", 0, match.start())
        last = first + match.group().count("\n")
        if not any(MARKER in line for line in lines[first:last + 1]):
            found.append((first + 1, " ".join(match.group().split())))
    return found


def tracked_files(root):
    """Paths of the files that git tracks, or None where git does not know this tree."""
    if not (root / ".git").exists():
        return None
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--", *PLACES], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [os.fsdecode(path) for path in listed.stdout.split(b"\0") if path]


def present_files(root):
    """Paths of all files in the places that are checked, without build folders."""
    found = []
    for place in PLACES:
        if (root / place).is_file():
            found.append(place)
        for folder, folders, names in os.walk(root / place):
            folders[:] = [name for name in folders if name not in GENERATED and not name.startswith(".") and
                          not (pathlib.Path(folder) / name / "meson-private").exists()]
            found.extend(str((pathlib.Path(folder) / name).relative_to(root)) for name in names)
    return found


def check_tree(root):
    """The number of files read and what is wrong with them."""
    listed = tracked_files(root)
    if listed is None:
        listed = present_files(root)
    files = 0
    problems = []
    for name in sorted(listed):
        path = root / name
        if any(name.startswith(folder + "/") for folder in RECORDED) or path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" in content:
            continue
        files += 1
        problems += [f"{name}:{line}: '{expression}'"
                     for line, expression in check_text(content.decode(errors="replace"))]
    return files, problems


def test_expressions():
    """Every expression is found, and the plain use of its parts is not."""
    wrong = [
        "nobody", "Nobody waits", "test_nobody_waits", "whoever", "somebody", "SOMEBODY_ELSE",  # words: plain
        "forebear", "its forebears", "told", "told_process", "it was told.", "what-is-told",  # words: plain
        "tell of", "tells of", "tells how", "tell what", "tells why", "tells when", "tells more",  # words: plain
        "tell_what", "in words", "in_words", "takes no words", "is yet to come",  # words: plain
        "let go of", "letting go of", "LET_GO_OF", "to let\n// go of", "tells\n * how", "in\n# words",  # words: plain
    ]
    right = ["anybody", "foretold", "untold", "tell", "tells the kernel", "telling", "inwords", "in wordsize",
             "in 12 words", "let go", "outlet go office", "come", "the user nobody /* words: plain */",
             "tells  // words: plain\n// how"]
    return ([f"not found: {case!r}" for case in wrong if len(check_text(case)) != 1] +
            [f"wrongly found: {case!r}" for case in right if check_text(case)])


def test_lines():
    """A finding names its line, and a marker counts for its own line only."""
    text = "plain\nnobody # words: plain\nnobody and nobody\n\ntold\n"  # words: plain
    lines = [line for line, _ in check_text(text)]
    return [] if lines == [3, 3, 5] else [f"found lines {lines} instead of [3, 3, 5]"]


def test_files():
    """Texts are read where git does not know the tree; recorded data, binaries and builds are not."""
    read = ["README.md", "src/a/b.c", "docs/man/sonde.1.scd", "tests/run"]
    unread = ["LICENSE", "tests/fixtures/recorded", "tests/fuzz/corpus/x/1", "src/build/a.c", "src/.hidden/a.c",
              "python/__pycache__/a", "tests/out/a.c"]
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path in read + unread:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("nobody\n")  # words: plain
        (root / "tests/out/meson-private").mkdir()
        (root / "docs/picture.png").write_bytes(b"nobody\0")  # words: plain
        files, problems = check_tree(root)
    expected = [f"{path}:1: 'nobody'" for path in sorted(read)]  # words: plain
    if files != len(read) or problems != expected:
        return [f"read {files} files and found {problems}"]
    return []


def main():
    files, problems = check_tree(pathlib.Path(sys.argv[1]))
    if not files:
        problems.append("no file was found")
    results = [("every expression is found, also in names and across lines", test_expressions()),
               ("a finding has its line, and a marker allows one line", test_lines()),
               ("texts are read, recorded data and builds are not", test_files()),
               (f"no text of {files} files contains such an expression", problems)]
    print(f"1..{len(results)}")
    for number, (name, found) in enumerate(results, 1):
        print(f"{'not ' if found else ''}ok {number} - {name}")
        for problem in found:
            print(f"# {problem}")
    return 1 if any(found for _, found in results) else 0


if __name__ == "__main__":
    sys.exit(main())
