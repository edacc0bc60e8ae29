# SPDX-License-Identifier: Apache-2.0
"""The fragments of changelog.d/, and the script that gathers them at a release."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def changelog():
    specification = importlib.util.spec_from_file_location("changelog", ROOT / "scripts" / "changelog.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.3.0"\n')
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("# Fragments\n")
    return tmp_path


def write(project, **texts):
    for name, text in texts.items():
        (project / "changelog.d" / f"{name.replace('_', '.')}.md").write_text(text)


def test_fragments_become_a_section_by_kind_and_are_removed(changelog, project):
    write(project, z_added="Last\nof two lines.\n", a_added="First.\n", b_fixed="Fixed it.\n")
    assert changelog.gather(project, "2026-11-22") == 3
    log = (project / "CHANGELOG.md").read_text()
    assert log == (
        "# Changelog\n\nUnreleased changes are in [changelog.d/](changelog.d/).\n\n## 0.3.0 (2026-11-22)\n\n"
        "### Added\n\n- First.\n- Last\n  of two lines.\n\n### Fixed\n\n- Fixed it.\n"
    )
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]


def test_a_later_section_stands_above_the_earlier_ones(changelog, project):
    write(project, a_added="Old.\n")
    changelog.gather(project, "2026-11-22")
    (project / "pyproject.toml").write_text('[project]\nversion = "0.4.0"\n')
    write(project, a_removed="New.\n")
    changelog.gather(project, "2026-12-01")
    log = (project / "CHANGELOG.md").read_text()
    assert log.count(changelog.TITLE) == 1
    assert re.findall(r"^## (\S+) ", log, re.MULTILINE) == ["0.4.0", "0.3.0"]
    assert "- New.\n\n## 0.3.0" in log


@pytest.mark.parametrize("texts", [{}, {"a": "No kind."}, {"a_better": "No such kind."}, {"a_added": " \n"}])
def test_what_cannot_be_gathered_is_refused_and_kept(changelog, project, texts):
    write(project, **texts)
    with pytest.raises(ValueError, match=r"no fragments|not a text in"):
        changelog.gather(project, "2026-11-22")
    assert not (project / "CHANGELOG.md").exists()
    assert len(list((project / "changelog.d").iterdir())) == 1 + len(texts)


def test_a_version_is_released_once(changelog, project):
    write(project, a_added="Once.\n")
    changelog.gather(project, "2026-11-22")
    write(project, b_added="Twice.\n")
    with pytest.raises(ValueError, match=r"has a section 0\.3\.0"):
        changelog.gather(project, "2026-11-23")
    assert (project / "changelog.d" / "b.added.md").exists()


def test_the_fragments_here_can_be_gathered(changelog):
    fragments = [path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"]
    assert changelog.section("0", "today", fragments).count("\n- ") == len(fragments)


def test_the_changelog_of_ros_is_written_from_ours(changelog, project):
    write(project, a_added="A `word_`, a [page](docs/x.md) and `two\nlines`; a_name, 2 * 3.\n")
    changelog.gather(project, "2026-11-22")
    assert (project / "CHANGELOG.rst").read_text().splitlines()[3:] == [
        "",
        "0.3.0 (2026-11-22)",
        "------------------",
        "",
        "**Added**",
        "",
        "* A ``word_``, a `page <docs/x.md>`__ and ``two",
        r"  lines``; a\_name, 2 \* 3.",
    ]


def test_the_changelog_of_ros_is_well_formed():
    core = pytest.importorskip("docutils.core", reason="docutils is missing: it comes with catkin_pkg")
    strict = {"report_level": 1, "halt_level": 1}  # the least remark is an error
    document = core.publish_doctree((ROOT / "CHANGELOG.rst").read_text(), settings_overrides=strict)
    assert document.astext().startswith("Changelog for package llm_planner")


def test_both_changelogs_say_the_same(changelog):
    assert (ROOT / "CHANGELOG.rst").read_text() == changelog.rst((ROOT / "CHANGELOG.md").read_text())


@pytest.mark.filterwarnings("ignore:nodes.Node.traverse:DeprecationWarning")  # catkin_pkg calls it
def test_tools_of_ros_can_read_ours():
    changelogs = pytest.importorskip("catkin_pkg.changelog", reason="catkin_pkg is missing: requirements/build-*.txt")
    found = changelogs.get_changelog_from_path(str(ROOT / "CHANGELOG.rst"), "llm_planner")
    versions = {version for version, _, _ in found.foreach_version()}
    assert versions == set(re.findall(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
