# SPDX-License-Identifier: Apache-2.0
"""What `make nightly` runs, with a fake in the place of make and Python: all checks, whatever is missing or fails."""

import os
import re
import subprocess
import sys

import pytest

from tests.documented import ROOT

SCRIPT = ROOT / "scripts" / "nightly.sh"
FAKE = f"""#!{sys.executable}
import os, sys
print("fake", os.path.basename(sys.argv[0]), *sys.argv[1:], os.environ.get("CHAOS"), flush=True)
sys.exit(any(word in sys.argv for word in os.environ["BROKEN"].split()))
"""


@pytest.fixture
def nightly(tmp_path):
    """Returns a function that runs checks, and returns their status and what they said of each check."""
    for name in ("make", "venv/bin/python", "venv/bin/colcon", "vllm/bin/python", "kilted/bin/python", "bin/chromium"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FAKE)
        path.chmod(0o755)

    def run(*checks, broken="", **variables):
        environment = {
            "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
            "MAKE": str(tmp_path / "make"),
            "VENV": str(tmp_path / "venv"),
            "VENV_VLLM": str(tmp_path / "vllm"),
            "VENV_KILTED": str(tmp_path / "kilted"),
            "ROS_DISTRO": "nowhere",
            "BROKEN": broken,
            **variables,
        }
        done = subprocess.run([SCRIPT, *checks], env=environment, capture_output=True, text=True, check=False)
        said = dict(re.findall(r"^nightly: (\w+): (.+)$", done.stdout, re.MULTILINE))
        calls = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("fake ")]
        return done.returncode, said, calls

    return run


def test_everything_runs_where_nothing_is_missing(nightly):
    status, said, calls = nightly(LLAMACPP_PYTHON="python")
    assert status == 0
    assert {name for name, text in said.items() if text.startswith("passed")} == set(said) - {"ros"}
    assert [words[1] for words in calls if words[0] == "make"] == ["test-vllm", "test", "colcon", "test-browser"]
    assert ["python", "-m", "pytest", "lab/tests/bench/chaos", "1"] in calls
    paths = [word for words in calls for word in words if "tests/" in word]
    assert paths
    assert all((ROOT / path).exists() for path in paths)


def test_what_is_missing_is_said_and_the_others_run(nightly, tmp_path):
    (tmp_path / "bin" / "chromium").unlink()
    status, said, _ = nightly(VENV_VLLM="nowhere", VENV_KILTED="nowhere")
    assert status == 0
    skipped = {name: text for name, text in said.items() if text.startswith("skipped: ")}
    assert skipped["vllm"] == "skipped: there is no nowhere; `make setup-vllm` makes it"
    assert "`make setup-dev ROS_DISTRO=kilted VENV=nowhere`" in skipped["kilted"]
    assert skipped["ros"] == "skipped: ROS 2 is not installed in /opt/ros/nowhere"
    assert "LLAMACPP_PYTHON" in skipped["llamacpp"]
    assert {"chaos", "plans", "colcon"} <= said.keys() - skipped.keys()


def test_a_check_that_fails_is_the_verdict_and_stops_no_other(nightly):
    status, said, _ = nightly(broken="test-vllm")
    assert status == 1
    assert said["vllm"].startswith("FAILED")
    assert said["plans"].startswith("passed")


def test_checks_by_name(nightly):
    assert nightly("plans")[1].keys() == {"plans"}
    assert nightly("plan")[0] == 2


def test_the_page_names_every_check():
    (checks,) = re.findall(r"^checks=\((.+)\)$", SCRIPT.read_text(), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == checks.split()
