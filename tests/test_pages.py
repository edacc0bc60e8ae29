# SPDX-License-Identifier: Apache-2.0
"""What holds for the pages: each is in the index, and what they link to or name exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_planner.core.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "index.md"
DOCS = sorted((ROOT / "docs").glob("**/*.md"))
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "QUALITY_DECLARATION.md")
    ),
    *DOCS,
    *sorted((ROOT / "models").glob("*/README.md")),
    ROOT / "lab" / "corpus" / "README.md",
]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SOURCE_FILE = re.compile(r"`([\w/.-]+/[\w.-]+\.py)`")
SOURCES = (ROOT, ROOT / "llm_planner")


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yields the file and the anchor of every relative link of a page."""
    for link in LINK.findall(prose(page)):
        if not re.match(r"\w+:", link):
            path, _, anchor = link.partition("#")
            yield ((page.parent / path).resolve() if path else page), anchor


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_page_of_docs_is_in_the_index():
    indexed = {target for target, _ in links(INDEX)}
    assert not [name_of(page) for page in DOCS if page != INDEX and page not in indexed]


def test_the_readme_links_the_index():
    assert (INDEX, "") in set(links(ROOT / "README.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page):
    missing = [str(target) for target, _ in links(page) if not target.exists()]
    assert not missing
    wrong = [
        f"{name_of(target)}#{anchor}"
        for target, anchor in links(page)
        if anchor and target.suffix == ".md" and anchor not in anchors(target)
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_source_files_are_named_by_where_they_are(page):
    """From the root of the repository, or from that of the package."""
    named = set(SOURCE_FILE.findall(prose(page)))
    assert not [name for name in named if not any((source / name).is_file() for source in SOURCES)]


def test_the_page_of_the_interfaces_has_every_error_code_with_its_number():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| \S", (ROOT / "docs" / "interfaces.md").read_text("utf-8"), re.MULTILINE)
    assert rows == [(str(int(code)), code.name) for code in ErrorCode]


def test_a_broken_link_and_a_missing_anchor_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One heading: `x_y`\n[a](#one-heading-x_y) [b](gone.md#z) [c](https://d.e/f)\n```\n[g](h)\n```\n")
    assert list(links(page)) == [(page, "one-heading-x_y"), (tmp_path / "gone.md", "z")]
    assert anchors(page) == {"one-heading-x_y"}
