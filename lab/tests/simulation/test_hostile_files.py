# SPDX-License-Identifier: Apache-2.0
"""Damaged traces, recordings and tables: each is read, or refused with a numbered error; nothing else is raised."""

import pytest

from lab.tests.simulation.builders import ROBOTS
from lab.tests.simulation.test_recording import a_goal, lines_of
from llm_planner.core.errors import PlannerError
from llm_planner_lab.cli.simulate_admission import LENGTHS
from llm_planner_lab.simulation.admission.jobs import read_jobs
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, PIPELINES, load_pipeline
from llm_planner_lab.simulation.trace import read_trace
from tests.hostile import damaged_json
from tests.test_documents import BOMB
from tests.test_hostile_files import check, of_bytes

RECORDING = "\n".join(lines_of(*a_goal(), *a_goal(name="h", at_s=120.0)))
FILES = {
    "jobs.csv": (LENGTHS, read_jobs, 60),
    "pipeline.yaml": (PIPELINES / f"{DEFAULT_PIPELINE}.yaml", load_pipeline, 30),
}


def of_lines(damage):
    """Returns the same damage for one line of a text."""

    def damage_line(rng, text):
        lines = text.splitlines()
        index = rng.randrange(len(lines))
        return "\n".join([*lines[:index], damage(rng, lines[index]), *lines[index + 1 :]])

    return damage_line


@pytest.mark.parametrize("name", FILES)
def test_damaged_text_is_read_or_refused(tmp_path, name):
    source, read, number = FILES[name]
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)[:400]
    check(tmp_path, name, "".join(lines), of_bytes, read, number)


def test_a_damaged_recording_is_read_or_refused(tmp_path):
    check(tmp_path, "a.jsonl", RECORDING, of_lines(damaged_json), lambda path: read_trace(path, ROBOTS), 300)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[", b"? 2001-01-01\n: {}", b"- 1", b"a: !!set {b}", b"5"])
def test_a_pipeline_profile_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(PlannerError) as raised:
        load_pipeline(path)
    assert str(path) in raised.value.message


def test_aliases_in_a_pipeline_profile_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMB)
    with pytest.raises(PlannerError, match="written out"):
        load_pipeline(path)
