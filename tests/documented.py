# SPDX-License-Identifier: Apache-2.0
"""The command lines that the pages show, so that tests can hold each against the program that it calls."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "lab/**/*.md", "models/**/*.md", "profiles/**/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"  # what it says was so once
)
FENCE = re.compile(r"^( *)```\w*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")


class Command(NamedTuple):
    """One command of a page: variables that it sets, its program and the words behind, without comment."""

    page: str
    variables: tuple[str, ...]
    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((*self.variables, self.program, *self.words))


def lines_of(text: str) -> Iterator[str]:
    """Yields the lines of fences and indented blocks, continuations joined, and what stands between backticks."""
    for _, fence in FENCE.findall(text):
        yield from re.sub(r"\s*\\\n\s*", " ", fence).splitlines()
    prose = FENCE.sub("", text)
    yield from INDENTED.findall(prose)
    yield from (span.replace("\n", " ") for span in SPAN.findall(prose))


def commands_of(text: str, page: str = "") -> Iterator[Command]:
    """Yields the commands of a page; what stands there instead is not distinguished from them."""
    for line in lines_of(text):
        for part in re.split(r" && |; (?=[a-z])", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # no command
                continue
            words = words[1:] if words[:1] == ["nice"] else words
            num_variables = next((n for n, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), len(words))
            if words[num_variables:]:
                program, *rest = words[num_variables:]
                yield Command(page, tuple(words[:num_variables]), program, tuple(rest))


def documented(program: str) -> list[Command]:
    """Returns the commands of all pages whose program has this name, in whatever directory, each once a page."""
    found = {
        command
        for page in PAGES
        for command in commands_of(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))
        if re.fullmatch(program, Path(command.program).name)
    }
    return sorted(found)
