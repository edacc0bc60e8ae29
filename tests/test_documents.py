# SPDX-License-Identifier: Apache-2.0
"""YAML and JSON within bounds: a small file stands for no more than a small document."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner import documents
from llm_planner.backends.cluster.description import load_cluster
from llm_planner.configuration import load_config, plain_parameters
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, json_of, parse_json, parse_yaml, read_text, read_yaml
from llm_planner.prediction.profile import load_profile
from llm_planner.prediction.throughput.catalogue import load_catalogue
from llm_planner.robots.library import load_robot_model
from llm_planner.sim.physics.world_file import load_world_file

BOMB = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
READERS = {
    "configuration": load_config,
    "parameters": plain_parameters,
    "robot model": load_robot_model,
    "world": lambda path: load_world_file(str(path)),
    "engine profile": load_profile,
    "catalogue": load_catalogue,
    "cluster": load_cluster,
}
SHIPPED = [
    path
    for folder in ("robot_models", "worlds", "config", "profiles")
    for path in sorted((share_dir() / folder).rglob("*.yaml"))
]
HOSTILE = {
    "aliases of aliases": (BOMB, "written out"),
    "aliases of a long text": ("a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 200 + "]", "written out"),
    "merged again and again": (
        "a0: &a0 {x: 1, y: 2}\n"
        + "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 30)}]}}\n" for n in range(1, 6)),
        "written out",
    ),
    "an alias of itself": ("&a [*a]", "part of what its anchor holds"),
    "brackets": ("[" * 1_000, "nested too deeply"),
    "a number of very many digits": ("a: " + "9" * 5_000, "has 5000 characters"),
    "a number to the base 60": ("a: 1" + ":1" * 50_000, "characters"),
    "a key that is given twice": ("a: 1\nb: 2\na: 3", "'a' appears twice"),
    "code": ("!!python/object/apply:os.getcwd []", "cannot be read as YAML"),
    "an empty number": ("!!int ''", "cannot be read as YAML"),
    "a month that there is not": ("2001-99-99", "cannot be read as YAML"),
    "a time that is none": ("!!timestamp noon", "cannot be read as YAML"),
    "a truth that is none": ("!!bool perhaps", "cannot be read as YAML"),
    "a list for a key": ("? [a]\n: b", "cannot be read as YAML"),
    "a control character": ("a: \0", "cannot be read as YAML"),
}


@pytest.mark.parametrize(("text", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_with_its_reason(text, reason):
    with pytest.raises(DocumentError, match=reason):
        parse_yaml(text)


def test_very_many_nodes_are_refused_while_they_are_read(monkeypatch):
    monkeypatch.setattr(documents, "MAX_NODES", 100)
    with pytest.raises(DocumentError, match="more than 100 nodes"):
        parse_yaml("[" + "a," * 10_000 + "{")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_is_shipped_can_be_read(path):
    assert read_yaml(path)


def test_anchors_aliases_and_merge_keys_mean_what_they_do_in_yaml():
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\nd: {<<: [*a, {z: 4}]}\n"
    both = {"x": 1, "y": 2}
    assert parse_yaml(text) == {"a": both, "b": {"x": 1, "y": 3}, "c": [both, both], "d": {"x": 1, "y": 2, "z": 4}}
    assert parse_yaml("") is None


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from tests.test_documents import READERS
from llm_planner.core.errors import PlannerError
for name, read in READERS.items():
    try:
        read(Path(sys.argv[1]))
    except PlannerError as error:
        assert "written out" in error.message, (name, error.message)
    else:
        raise AssertionError(f"{name} takes it")
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_no_reader_of_yaml_lets_aliases_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(BOMB)
    assert path.stat().st_size < 450
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 1_000_000  # kilobytes; most of it are libraries


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("content", [b"\xff\xfe", b"[", b"? 2001-01-01\n: {}", b"- 1", b"a: !!set {b}", b"5"])
def test_readers_refuse_what_is_no_document_of_theirs(tmp_path, read, content):
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(PlannerError) as raised:
        read(path)
    assert str(path) in raised.value.message or "catalogue" in raised.value.message


@pytest.mark.parametrize(("name", "read"), READERS.items(), ids=READERS)
@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[", b"- 1", b"5"])
def test_a_file_that_cannot_be_read_has_one_code(tmp_path, name, read, content):
    path = tmp_path / "file.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PlannerError) as raised:
        read(path)
    assert raised.value.code is (ErrorCode.INVALID_ROBOT_MODEL if name == "robot model" else ErrorCode.INVALID_FILE)
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour: 1", "colour: there is no such setting; docs/parameters.md has all"),
        ("engin_: {}", "engin_: there is no such setting; did you mean engine?"),
        ("engine: {modl: x}", "engine.modl: there is no such setting; did you mean model?"),
    ],
)
def test_a_setting_that_is_none_is_named_with_the_nearest(tmp_path, text, said):
    (path := tmp_path / "planner.yaml").write_text(text)
    with pytest.raises(PlannerError) as raised:
        load_config(path)
    assert raised.value.message == f"{path}: {said}"


def test_a_file_that_never_ends_is_read_as_far_as_its_bound():
    with pytest.raises(DocumentError, match="larger than 1000 bytes"):
        read_text(Path("/dev/zero"), max_bytes=1_000)
    with pytest.raises(DocumentError, match="cannot be read"):
        read_text(Path("/"))


@given(st.text())
def test_whatever_a_text_says_it_is_read_or_refused(text):
    for parse in (parse_yaml, parse_json):
        with contextlib.suppress(DocumentError):
            parse(text)


YAML_TEXTS = st.text(alphabet="ab1:-[]{},&*<!|>'\"? \n#%@.", max_size=60)


@given(YAML_TEXTS)
def test_whatever_yaml_says_becomes_json_or_is_refused(text):
    with contextlib.suppress(DocumentError):
        assert isinstance(json_of(parse_yaml(text)), str)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "NaN", "[1, -Infinity]", "", "{"])
def test_hostile_json_is_refused(text):
    with pytest.raises(DocumentError, match="cannot be read as JSON"):
        parse_json(text)
