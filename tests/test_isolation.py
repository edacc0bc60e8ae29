# SPDX-License-Identifier: Apache-2.0
"""Test runs side by side do not meet, and no other process can get into their way."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLAIM = """
import os, tempfile
import tests.conftest
own = ("llm_planner_ros_log_", "llm_planner_cache_")
print(os.environ["ROS_DOMAIN_ID"], *(name for name in os.listdir(tempfile.gettempdir()) if not name.startswith(own)))
"""


def test_a_claim_is_no_file_and_keeps_others_away(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", CLAIM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    domain, *files = done.stdout.split()
    assert domain != os.environ["ROS_DOMAIN_ID"]
    assert files == []
