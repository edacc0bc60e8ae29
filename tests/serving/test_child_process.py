# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

from llm_planner.serving import child_process


@pytest.fixture
def _thaw():
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_thaw")
def test_what_is_loaded_is_no_garbage(monkeypatch):
    loaded, frozen = [], []

    class Runner:
        def __init__(self, connection, loop, heartbeat_interval_s):
            loaded.append(loop)

        def run(self):
            frozen.append(gc.get_freeze_count())

    monkeypatch.setattr(child_process, "LoopRunner", Runner)
    before = gc.get_freeze_count()
    child_process.run_child(None, lambda: "loop", 1.0)
    assert loaded == ["loop"]
    assert frozen[0] > before + 1000
