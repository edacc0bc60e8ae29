"""A child that asks for its parent's death too late. (That it comes in time: ``test_child``.)"""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="no parents there")
def test_a_parent_that_died_before_it_was_asked_for(tmp_path: Path):
    script, said = tmp_path / "parent.py", tmp_path / "said"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, os, sys, time
            from pathlib import Path
            from llm_planner.serving.parent_death import die_with_parent

            def late(said, parent):
                Path(said).write_text(f"{os.getpid()}\\n")
                while os.getppid() == parent:
                    time.sleep(0.01)
                die_with_parent()
                Path(said).write_text("alive")

            if __name__ == "__main__":
                said = Path(sys.argv[1])
                multiprocessing.get_context("spawn").Process(target=late, args=(said, os.getpid())).start()
                while not said.exists() or not said.read_text().endswith("\\n"):
                    time.sleep(0.01)
                os._exit(0)
        """)
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, str(script), str(said)], env=environment, check=True)
    child = int(said.read_text())
    deadline_s = time.monotonic() + 30.0
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert said.read_text() != "alive"
