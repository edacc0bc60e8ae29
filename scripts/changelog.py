"""Gathers the fragments of changelog.d/ into a new section of CHANGELOG.md, and removes them: `make changelog`.

The section has the version of pyproject.toml, so raise that first (and those that the tests hold equal to it).
"""

import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")
TITLE = "# Changelog\n"


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
    for path in fragments:
        path.unlink()
    return len(fragments)


if __name__ == "__main__":
    try:
        print(f"CHANGELOG.md: {gather(ROOT, datetime.now(UTC).date().isoformat())} fragments")
    except ValueError as error:
        sys.exit(f"changelog: {error}")
