# SPDX-License-Identifier: Apache-2.0
"""The server benchmark, as its page says to run it: what it pickles for the engine process has a name there."""

import json
import os
import subprocess
import sys

from llm_planner_lab.bench.server import _summary, measure_cancel


def test_the_module_measures_all_it_names():
    command = [sys.executable, "-m", "llm_planner_lab.bench.server", "--num-goals", "2", "--num-kills", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300.0, check=False)
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    overhead, cancel, recovery = (measured[name] for name in ("overhead", "cancel", "recovery"))
    few, many = (measured["look"][number] for number in ("8", "1000"))
    for times in (overhead, cancel, recovery, few, many):
        assert 0.0 < times["p50_ms"] <= times["p99_ms"] <= times["max_ms"]
    assert [times["n"] for times in (overhead, cancel, recovery, few, many)] == [2, 2, 2, 200, 200]
    assert recovery["p50_ms"] > overhead["p50_ms"], "another process starts"
    assert many["p50_ms"] > few["p50_ms"], "there is more to see"


def test_a_cancel_is_timed_in_the_middle_of_a_step_and_does_not_wait_for_it():
    step_s = 3.0
    assert all(0.0 < took_s < step_s / 2 for took_s in measure_cancel(2, step_s))


def test_times_are_summed_up_by_their_percentiles():
    milliseconds = range(1, 102)
    summary = _summary([1e-3 * time_ms for time_ms in reversed(milliseconds)])
    assert summary == {"p50_ms": 51.0, "p99_ms": 100.0, "max_ms": 101.0, "n": 101}
