# SPDX-License-Identifier: Apache-2.0
"""Gathers the fragments of changelog.d/ into a new section of CHANGELOG.md, and removes them: `make changelog`.

ROS's tools read CHANGELOG.rst, which is written from it. `scripts/changelog.py --rst` writes that alone.

The section has the version of pyproject.toml, so raise that first (and those that the tests hold equal to it).
"""

import re
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")
TITLE = "# Changelog\n\nUnreleased changes are in [changelog.d/](changelog.d/).\n"
RST_TITLE = "Changelog for package llm_planner"
_SPAN = re.compile(r"`(?P<code>[^`]+)`|\[(?P<text>[^\]]+)\]\((?P<link>[^)\s]+)\)|(?P<special>[*|\\_])")


def section(version: str, day: str, fragments: list[Path]) -> str:
    """Returns the section of a release: a list of what was added, changed, fixed and removed.

    Raises:
        ValueError: A fragment is empty, or its name is not `<what>.<kind>.md`.
    """
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in sorted(fragments):
        what, *kind = path.name.removesuffix(".md").split(".")
        text = path.read_text(encoding="utf-8").strip()
        if not what or len(kind) != 1 or kind[0] not in KINDS or not text:
            raise ValueError(f"{path.name}: not a text in <what>.<kind>.md with a kind of {', '.join(KINDS)}")
        entries[kind[0]].append("- " + text.replace("\n", "\n  "))
    lists = [f"### {kind.capitalize()}\n\n" + "\n".join(entries[kind]) + "\n" for kind in KINDS if entries[kind]]
    return "\n".join([f"## {version} ({day})\n", *lists])


def gather(root: Path, day: str) -> int:
    """Writes the section of the present version above the earlier ones; returns how many fragments it took.

    Raises:
        ValueError: There is no fragment, one is malformed, or the version has its section already.
    """
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    fragments = [path for path in (root / "changelog.d").glob("*.md") if path.name != "README.md"]
    log = root / "CHANGELOG.md"
    earlier = log.read_text(encoding="utf-8").removeprefix(TITLE) if log.exists() else ""
    if not fragments:
        raise ValueError("changelog.d/ holds no fragments")
    if f"\n## {version} " in earlier:
        raise ValueError(f"{log.name} has a section {version}: raise the version in pyproject.toml")
    log.write_text(f"{TITLE}\n{section(version, day, fragments)}{earlier}", encoding="utf-8")
    write_rst(root)
    for path in fragments:
        path.unlink()
    return len(fragments)


def rst(markdown: str) -> str:
    """Returns the text of CHANGELOG.rst, from that of CHANGELOG.md."""
    rule = "^" * len(RST_TITLE)
    lines = [rule, RST_TITLE, rule]
    for line in _SPAN.sub(_span, markdown.removeprefix(TITLE)).splitlines():  # a span may go over the end of a line
        hashes, _, heading = line.partition(" ")
        if hashes == "##":
            lines += [heading, "-" * len(heading)]
        elif hashes == "###":
            lines.append(f"**{heading}**")
        else:
            is_item = line.startswith("- ")
            lines.append("* " * is_item + line[2 * is_item :])
    return "\n".join(lines) + "\n"


def _span(found: re.Match[str]) -> str:
    if found["code"]:
        return f"``{found['code']}``"
    return f"`{found['text']} <{found['link']}>`__" if found["text"] else f"\\{found['special']}"


def write_rst(root: Path) -> None:
    """Writes CHANGELOG.rst."""
    (root / "CHANGELOG.rst").write_text(rst((root / "CHANGELOG.md").read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--rst"]:
        write_rst(ROOT)
        sys.exit()
    try:
        print(f"CHANGELOG.md: {gather(ROOT, datetime.now(UTC).date().isoformat())} fragments")
    except ValueError as error:
        sys.exit(f"changelog: {error}")
