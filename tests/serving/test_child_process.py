# SPDX-License-Identifier: Apache-2.0
import gc
from multiprocessing import Pipe

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.core.request import OverrunStrategy, Urgency
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.serving import child_process
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.messages import Admitted, Cancel
from tests.serving.budget_run import LONG, PLAN, EvictablePreparer, ProfiledFake
from tests.serving.builders import make_loop, make_request


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


class SlowToPrepare(EvictablePreparer):
    """Takes 1.5 ms for each goal."""

    clock = ManualClock()

    def prepare(self, request):
        self.clock.advance(0.0015)
        return super().prepare(request)


class InRealTime(ProfiledFake):
    """Lets the clock run while it executes a step."""

    clock = ManualClock()

    def execute(self, scheduled):
        output = super().execute(scheduled)
        self.clock.advance(output.duration_s)
        return output


@pytest.mark.parametrize("urgency", [Urgency.NORMAL, Urgency.URGENT])
def test_goals_with_long_budgets_do_not_take_the_time_of_a_short_one_that_was_admitted(urgency):
    clock = ManualClock(100.0)
    backend = InRealTime(plans={"go": PLAN, "long": LONG})
    loop = make_loop(backend=backend, policy="tardiness", do_clients_report=False, network_latency_s=0.0)
    loop._scheduler.times.engine = ProfiledTimes(backend.profile)
    loop._preparer = SlowToPrepare(backend)
    backend.clock = loop._preparer.clock = clock
    mine, theirs = Pipe()
    runner = child_process.LoopRunner(theirs, loop, 60.0, clock)

    def send(request_id, instruction, **changes):
        mine.send(GoalRecord(request=make_request(request_id, instruction, **changes), arrival_s=clock.now_s()))

    short = {"time_budget_s": 0.3, "overrun": OverrunStrategy.KILL, "urgency": urgency}
    send("short", "long" + " see" * 300, **short)
    received = []
    for _ in range(2):
        runner._turn()
    for number in range(150):
        send(f"long{number}", "go", time_budget_s=60.0)
    while not any(isinstance(message, SegmentReady | Finished) for message in received):
        runner._turn()
        while mine.poll():
            message = mine.recv()
            if getattr(message, "request_id", None) == "short":
                received.append(message)
    assert [type(message) for message in received] == [Admitted, SegmentReady]


def test_the_end_of_a_goal_that_was_cancelled_is_not_that_of_another_one_with_its_id():
    """The parent has announced it; what came now would end a goal that was sent anew."""
    mine, theirs = Pipe()
    loop = make_loop({"go": "a();"}, do_clients_report=False)
    runner = child_process.LoopRunner(theirs, loop, 60.0, ManualClock())
    goal = GoalRecord(request=make_request("r1", urgency=Urgency.URGENT), arrival_s=0.0)
    for message in (goal, Cancel("r1"), goal):
        mine.send(message)
        runner._turn()
    assert tuple(loop.request_ids) == ("r1",)
    assert not mine.poll()
