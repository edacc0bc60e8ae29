# SPDX-License-Identifier: Apache-2.0
"""The server benchmark, as its page says to run it: what it pickles for the engine process has a name there."""

import json
import os
import subprocess
import sys


def test_the_module_measures_all_it_names():
    command = [sys.executable, "-m", "llm_planner_lab.bench.server", "--num-goals", "2", "--num-kills", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300.0, check=False)
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    assert [measured[name]["n"] for name in ("overhead", "cancel", "recovery")] == [2, 2, 2]
    assert measured["look"].keys() == {"8", "1000"}
