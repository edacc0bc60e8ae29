# SPDX-License-Identifier: Apache-2.0
"""The child server: crashes, hangs, recovery, cancel while a step is long."""

import contextlib
import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import Situation
from llm_planner.core.time_utility import TimeUtility
from llm_planner.serving import quarantine
from llm_planner.serving.child import ChildServer
from llm_planner.serving.child_link import Timeouts
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.preparation import Prepared
from llm_planner.serving.replica import Factories
from llm_planner.serving.view import LoopView
from tests.serving.builders import StubPreparer, make_admission, make_loop, make_request, succeeded

PLAN = "a(1);b(2);c(3);d(4);e(5);f(6);"
TIMEOUTS = Timeouts(start_timeout_s=30.0, hang_timeout_s=1.5, heartbeat_interval_s=0.05, max_attempts=2, max_restarts=2)


def build(step_s: float = 0.01, plan: str = PLAN, policy: str = "fcfs_stream", dies_at: str = "") -> PlannerLoop:
    """What the child builds: steps that take real time, and a backend that may kill its process."""
    backend = FakeBackend(
        plans={"go": plan, "poison": plan, "hang": plan},
        timing=FakeTiming(step_s=step_s, prompt_token_s=0.0, decode_s=0.0),
        sleep=time.sleep,
    )
    if dies_at:
        backend.sleep = functools.partial(_die_if, backend, dies_at)
    return make_loop(backend=backend, policy=policy)


def _die_if(backend: FakeBackend, instruction: str, seconds: float) -> None:
    if any(instruction in state.prompt for state in backend._states.values()):
        if instruction == "hang":
            time.sleep(3600)
        os._exit(9)
    time.sleep(seconds)


class FaultyPreparer(StubPreparer):
    """Has a defect that the instruction ``bug`` finds."""

    def prepare(self, request: PlanRequest) -> Prepared:
        if request.instruction == "bug":
            raise ZeroDivisionError("a defect")
        return super().prepare(request)


def build_faulty() -> PlannerLoop:
    backend = FakeBackend(plans={"go": PLAN}, sleep=time.sleep)
    return make_loop(backend=backend, preparer=FaultyPreparer(backend))


def build_nothing() -> PlannerLoop:
    raise PlannerError(ErrorCode.MODEL_NOT_FOUND, "no such model")


class Owner:
    """Receives events, and executes what it is told at once."""

    def __init__(
        self,
        factory: Callable[[], PlannerLoop],
        reports: bool = True,
        timeouts: Timeouts = TIMEOUTS,
        next_factory: Callable[[], PlannerLoop] | None = None,
        others: Sequence[Factories] = (),
    ) -> None:
        self.events: list[Event] = []
        self.reports = reports
        self.changed = threading.Condition()
        self.server = ChildServer(
            [Factories(factory, next_factory), *others],
            book=GoalBook(make_admission(), self.on_event),
            clock=MonotonicClock(),
            timeouts=timeouts,
        )
        starter = threading.Thread(target=self.server.start)  # that thread ends, the child goes on
        starter.start()
        starter.join()

    def on_event(self, event: Event) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()
        if self.reports and isinstance(event, SegmentReady):
            self.server.report(succeeded(event.request_id, event.segment.index, 0.0))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout=30.0), self.events

    def segments(self, request_id: str) -> list[str]:
        return [e.segment.text for e in self.events if isinstance(e, SegmentReady) and e.request_id == request_id]

    def results(self) -> dict[str, PlanResult]:
        finished = [e.result for e in self.events if isinstance(e, Finished)]
        assert len(finished) == len({r.request_id for r in finished}), "a goal ended twice"
        return {r.request_id: r for r in finished}

    def look(self) -> LoopView:
        before, deadline_s = self.server.status.view, time.monotonic() + 20.0
        while (view := self.server.status.view) == before or view is None:
            assert time.monotonic() < deadline_s
            self.server.look()
            time.sleep(0.01)
        return view

    @property
    def child_pid(self) -> int:
        (child_pid,) = self.server.child_pids
        return child_pid

    def result(self, request_id: str) -> PlanResult:
        self.wait_for(lambda: request_id in self.results())
        return self.results()[request_id]


@pytest.fixture
def own() -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def make(factory: Callable[[], PlannerLoop], **options: Any) -> Owner:
        owners.append(Owner(factory, **options))
        return owners[-1]

    yield make
    for owner in owners:
        owner.server.close()
        assert owner.server.child_pids == []


def test_plans_in_a_child(own):
    owner = own(functools.partial(build, step_s=0.001))
    owner.server.submit(make_request("r1", "go"))
    assert owner.result("r1").error_code is ErrorCode.NONE
    assert owner.result("r1").plan == "".join(owner.segments("r1")) == PLAN
    assert owner.server.wait_ready(1.0)
    assert owner.server.status.is_ready
    assert owner.child_pid != os.getpid()


def test_kill_9_in_mid_plan_loses_and_repeats_nothing(own):
    owner = own(functools.partial(build, step_s=0.03))
    for name in ("r1", "r2", "r3"):
        owner.server.submit(make_request(name, "go"))
    owner.wait_for(lambda: all(len(owner.segments(n)) >= 2 for n in ("r1", "r2", "r3")))
    os.kill(owner.child_pid, signal.SIGKILL)
    for name in ("r1", "r2", "r3"):
        result = owner.result(name)
        assert result.error_code is ErrorCode.NONE, result
        assert "".join(owner.segments(name)) == result.plan == PLAN
        assert [s.index for s in result.segments] == list(range(6))
        assert result.metrics.response_time_s is not None
    assert owner.server.status.num_restarts == 1


def test_a_goal_whose_plan_was_complete_survives_a_crash(own):
    owner = own(functools.partial(build, step_s=0.001), reports=False)
    owner.server.submit(make_request("r1", "go"))
    owner.wait_for(lambda: any(type(e).__name__ == "PlanComplete" for e in owner.events))
    os.kill(owner.child_pid, signal.SIGKILL)
    owner.server.report(succeeded("r1", 5))  # between two children
    assert owner.result("r1").error_code is ErrorCode.NONE
    assert "".join(owner.segments("r1")) == PLAN


def partial(time_budget_s: float) -> dict[str, object]:
    strategy = {"overrun": OverrunStrategy.PARTIAL, "budget_scope": BudgetScope.WHOLE_PLAN}
    return {"time_budget_s": time_budget_s, **strategy}


def completes(owner: Owner) -> list[PlanComplete]:
    return [e for e in owner.events if isinstance(e, PlanComplete)]


@pytest.mark.parametrize("is_closed_by_the_parent", [True, False])
def test_a_partial_plan_survives_a_crash(own, is_closed_by_the_parent):
    """The deadline passes while there is no child, or long after the next one has started."""
    owner = own(functools.partial(build, step_s=0.1, plan=PLAN * 20))
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go", **partial(0.6 if is_closed_by_the_parent else 8.0)))
    owner.wait_for(lambda: len(owner.segments("r1")) >= 1)
    os.kill(owner.child_pid, signal.SIGKILL)
    result = owner.result("r1")
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert "".join(owner.segments("r1")) == result.plan
    assert (PLAN * 20).startswith(result.plan)
    assert completes(owner) == [PlanComplete("r1", len(result.segments), is_partial=True)]
    assert owner.server.status.num_restarts == 1
    assert (len(result.segments) > 3) == (not is_closed_by_the_parent)


def test_a_partial_plan_is_closed_by_the_parent_if_its_engine_hangs_when_its_time_is_over(own):
    timeouts = replace(TIMEOUTS, warn_timeout_s=1.0, least_hang_timeout_s=600.0, hang_timeout_s=600.0)
    owner = own(functools.partial(build, step_s=0.1, plan=PLAN * 20), timeouts=timeouts)
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go", **partial(0.6)))
    owner.wait_for(lambda: len(owner.segments("r1")) >= 1)
    stop(child := owner.child_pid)  # it will count as silent after the end of the budget
    assert owner.server.status.silent_s is None
    owner.wait_for(lambda: len(completes(owner)) == 1)
    assert owner.server.status.num_restarts == 0
    os.kill(child, signal.SIGCONT)


def start_slowly() -> PlannerLoop:
    time.sleep(60.0)
    raise AssertionError("no test waits this long")


@pytest.mark.parametrize("fields", [{"time_budget_s": 0.2}, partial(0.2)])
def test_a_budget_holds_without_an_engine(own, fields):
    owner = own(start_slowly)
    owner.server.submit(make_request("r1", "go", **fields))
    assert owner.result("r1").error_code is ErrorCode.BUDGET_INFEASIBLE
    assert not owner.server.status.is_ready


def test_a_goal_that_comes_in_a_long_step_is_refused_before_the_step_ends(own):
    owner = own(functools.partial(build, step_s=20.0))
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("long", "go"))
    time.sleep(0.5)  # the step has begun
    began_s = time.monotonic()
    owner.server.submit(make_request("r1", "go", robot_id="other", time_budget_s=0.3))
    assert owner.result("r1").error_code is ErrorCode.BUDGET_INFEASIBLE
    assert time.monotonic() - began_s < 15.0


def test_the_parent_learns_what_is_admitted_before_the_step_that_follows(own):
    owner = own(functools.partial(build, step_s=20.0))
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go", time_budget_s=60.0))
    until_s = time.monotonic() + 15.0
    while not owner.server._book.get("r1").is_admitted:
        assert time.monotonic() < until_s, "the step did not begin, or the parent was told only behind it"
        time.sleep(0.01)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_what_was_admitted_is_refused_in_time_for_the_reflex_if_its_engine_dies_or_hangs(own, sent):
    timeouts = replace(TIMEOUTS, warn_timeout_s=0.3, least_hang_timeout_s=600.0, hang_timeout_s=600.0)
    owner = own(functools.partial(build, step_s=20.0), timeouts=timeouts, next_factory=start_slowly)
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go", time_budget_s=3.0))
    while not owner.server._book.get("r1").is_admitted:
        time.sleep(0.01)
    os.kill(owner.child_pid, sent)
    assert owner.result("r1").error_code is ErrorCode.BUDGET_INFEASIBLE


def test_a_goal_that_kills_the_engine_ends_and_the_next_one_is_served(own):
    owner = own(functools.partial(build, step_s=0.001, dies_at="poison"))
    owner.server.submit(make_request("r1", "poison"))
    assert owner.result("r1").error_code is ErrorCode.ENGINE_FAILED
    owner.server.submit(make_request("r2", "go"))
    assert owner.result("r2").plan == PLAN


def test_a_hanging_child_is_killed(own):
    owner = own(functools.partial(build, step_s=0.001, dies_at="hang"))
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "hang"))
    time.sleep(0.3)  # it hangs now
    assert owner.server.status.num_restarts == 0
    started_s = time.monotonic()
    assert owner.server.cancel("r1")
    assert owner.result("r1").error_code is ErrorCode.CANCELLED
    assert time.monotonic() - started_s < 1.0  # long before the hang was noticed
    owner.server.submit(make_request("r2", "go"))
    assert owner.result("r2").plan == PLAN
    assert owner.server.status.num_restarts == 1


def test_a_goal_that_kills_the_engine_takes_no_other_with_it(own):
    owner = own(functools.partial(build, step_s=0.001, dies_at="poison"))
    names = [f"r{n}" for n in range(6)]
    for name in names:
        owner.server.submit(make_request(name, "poison" if name == "r2" else "go"))
    for name in names:
        code = ErrorCode.ENGINE_FAILED if name == "r2" else ErrorCode.NONE
        assert owner.result(name).error_code is code, owner.result(name)


def build_late(**options: Any) -> PlannerLoop:
    time.sleep(1.0)
    return build(**options)


def test_a_suspect_is_alone_also_in_a_child_that_loads_for_longer_than_a_trial(own, monkeypatch):
    monkeypatch.setattr(quarantine, "TRIAL_S", 0.2)
    dying = {"step_s": 0.001, "dies_at": "poison"}
    owner = own(functools.partial(build, **dying), next_factory=functools.partial(build_late, **dying))
    owner.server.submit(make_request("r1", "poison"))
    owner.server.submit(make_request("r2", "go"))
    deadline_s = time.monotonic() + 30.0
    while not (owner.server.status.num_restarts and owner.server.child_pids):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    time.sleep(0.4)  # the trial would be over, the child is loading
    owner.server.submit(make_request("r3", "go"))
    assert owner.result("r1").error_code is ErrorCode.ENGINE_FAILED
    assert owner.result("r2").plan == owner.result("r3").plan == PLAN
    assert owner.server.status.num_restarts == 2


def test_engines_that_goals_kill_one_after_the_other_are_always_replaced(own):
    owner = own(functools.partial(build, step_s=0.001, dies_at="poison"))
    for name in ("r1", "r2", "r3"):
        owner.server.submit(make_request(name, "poison"))
        assert owner.result(name).error_code is ErrorCode.ENGINE_FAILED
    owner.server.submit(make_request("r4", "go"))
    assert owner.result("r4").plan == PLAN


def test_an_exception_in_a_command_ends_its_goal_and_not_the_child(own, caplog):
    owner = own(build_faulty)
    for name, instruction in (("r1", "go"), ("r2", "bug"), ("r3", "go")):
        owner.server.submit(make_request(name, instruction))
    assert "a defect" in owner.result("r2").error_msg
    assert owner.result("r2").error_code is ErrorCode.ENGINE_FAILED
    assert owner.result("r1").plan == owner.result("r3").plan == PLAN
    assert owner.server.status.num_restarts == 0


def test_what_cannot_be_pickled_ends_its_goal_and_no_other(own):
    class Local(Situation):
        """Cannot be found by its name."""

    class LocalUtility(TimeUtility):
        """Neither."""

    owner = own(functools.partial(build, step_s=0.02), reports=False)
    owner.server.submit(make_request("r1", "go"))
    owner.server.submit(make_request("r2", "go"))
    owner.wait_for(lambda: len(owner.segments("r1")) == 6)
    owner.server.report(replace(succeeded("r1", 0), situation=Local()))
    assert owner.result("r1").error_code is ErrorCode.ENGINE_FAILED
    owner.server.submit(make_request("r3", "go", time_utility=LocalUtility(ert_s=1.0, alpha=-2.0, beta=1.0)))
    assert owner.result("r3").error_code is ErrorCode.ENGINE_FAILED
    owner.wait_for(lambda: len(owner.segments("r2")) == 6)
    owner.server.report(succeeded("r2", 5))
    assert owner.result("r2").error_code is ErrorCode.NONE
    assert owner.server.status.num_restarts == 0


def stop(pid: int) -> None:
    """Stops a process, and returns when it stands."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.001)


def test_a_child_that_is_stopped_is_told_of_and_replaced_long_before_the_longest_silence(own, caplog):
    timeouts = replace(TIMEOUTS, warn_timeout_s=0.3, least_hang_timeout_s=1.5, hang_timeout_s=600.0)
    owner = own(functools.partial(build, step_s=0.05), timeouts=timeouts)
    assert owner.server.wait_ready(30.0)
    assert owner.server.status.silent_s is None
    owner.server.submit(make_request("r1", "go"))
    owner.wait_for(lambda: len(owner.segments("r1")) >= 2)
    stop(owner.child_pid)
    while (silent_s := owner.server.status.silent_s) is None:
        assert owner.server.status.num_restarts == 0
        time.sleep(0.005)
    assert silent_s >= 0.3
    result = owner.result("r1")
    assert result.error_code is ErrorCode.NONE
    assert "".join(owner.segments("r1")) == result.plan == PLAN
    assert owner.server.status.num_restarts == 1
    assert owner.server.status.silent_s is None
    assert owner.server._replicas[0]._num_hangs == owner.server._replicas[0]._link.num_hangs == 0
    assert "has not answered for" in caplog.text


def test_a_child_that_goes_on_is_not_replaced(own, caplog):
    timeouts = replace(TIMEOUTS, warn_timeout_s=0.3, least_hang_timeout_s=600.0, hang_timeout_s=600.0)
    owner = own(functools.partial(build, step_s=0.01), timeouts=timeouts)
    assert owner.server.wait_ready(30.0)
    stop(child := owner.child_pid)
    while owner.server.status.silent_s is None:
        time.sleep(0.005)
    os.kill(child, signal.SIGCONT)
    while owner.server.status.silent_s is not None:
        time.sleep(0.005)
    owner.server.submit(make_request("r1", "go"))
    assert owner.result("r1").plan == PLAN
    assert owner.child_pid == child
    assert "answers again" in caplog.text


def test_close_does_not_wait_for_a_child_that_is_stopped_and_reads_nothing(own):
    owner = own(
        functools.partial(build, step_s=0.01), timeouts=replace(TIMEOUTS, hang_timeout_s=600.0, stop_timeout_s=0.1)
    )
    assert owner.server.wait_ready(30.0)
    stop(owner.child_pid)
    for n in range(100):  # more than the pipe holds
        owner.server.submit(make_request(f"r{n}", "go", scene="x" * 60_000))
    owner.server.close()
    assert {result.error_code for result in owner.results().values()} == {ErrorCode.SHUTTING_DOWN}


def test_cancel_does_not_wait_for_the_step(own):
    owner = own(functools.partial(build, step_s=1.0))
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go"))
    time.sleep(0.2)  # the child is in the middle of a step now
    started_s = time.monotonic()
    assert owner.server.cancel("r1")
    owner.result("r1")
    assert time.monotonic() - started_s < 0.5
    assert not owner.server.cancel("r1")


def test_an_urgent_goal_supersedes(own):
    owner = own(functools.partial(build, step_s=0.02))
    owner.server.submit(make_request("r1", "go", robot_id="x"))
    with pytest.raises(PlannerError, match="ROBOT_BUSY"):
        owner.server.submit(make_request("r2", "go", robot_id="x"))
    owner.server.submit(make_request("r3", "go", robot_id="x", urgency=Urgency.URGENT))
    assert owner.result("r1").error_code is ErrorCode.SUPERSEDED
    assert owner.result("r3").error_code is ErrorCode.NONE


def test_a_model_that_does_not_load_is_told_at_once(own):
    owner = own(build_nothing)
    with pytest.raises(PlannerError, match="MODEL_NOT_FOUND"):
        owner.server.wait_ready(30.0)
    with pytest.raises(PlannerError, match="MODEL_NOT_FOUND"):
        owner.server.submit(make_request())
    assert owner.server.status.error is not None


def test_a_view_comes_when_it_is_asked_for_and_from_the_next_child_too(own):
    owner = own(functools.partial(build, step_s=0.05))
    owner.server.look()  # no client is there yet
    assert owner.server.wait_ready(30.0)
    assert owner.server.status.view is None
    owner.server.submit(make_request("r1", "go"))
    assert owner.look().goals[0].request_id == "r1"
    os.kill(owner.child_pid, signal.SIGKILL)
    while owner.server.status.num_restarts == 0:
        owner.server.look()  # some of these are never answered
        time.sleep(0.01)
    owner.result("r1")
    assert owner.look().goals == ()


def test_what_a_child_did_counts_on_in_the_next_one(own):
    owner = own(build_faulty)
    assert owner.server.wait_ready(30.0)
    owner.server.submit(make_request("r1", "go"))
    owner.result("r1")
    before = owner.look().totals
    os.kill(owner.child_pid, signal.SIGKILL)
    while owner.server.status.num_restarts == 0:
        time.sleep(0.01)
    assert owner.look().totals == before
    owner.server.submit(make_request("r2", "go"))
    owner.result("r2")
    assert owner.look().totals.num_output_tokens == 2 * before.num_output_tokens > 0


class OtherTimes:
    drift, source = None, "built later"


def build_later() -> PlannerLoop:
    loop = build_faulty()
    loop._scheduler.times.engine = OtherTimes()
    return loop


def test_a_child_that_replaces_another_is_built_by_the_next_factory(own):
    owner = own(build_faulty, next_factory=build_later)
    assert owner.server.wait_ready(30.0)
    assert owner.server.status.loop.engine_times == "learned from the steps"
    os.kill(owner.child_pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 30.0
    while owner.server.status.loop.engine_times != "built later":
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def build_and_say() -> PlannerLoop:
    logging.getLogger("llm_planner.anything").info("measuring how quick this machine is")
    return build_faulty()


def test_what_a_child_says_of_its_start_is_seen(own, capfd):
    assert own(build_and_say).server.wait_ready(30.0)
    assert capfd.readouterr().err == "measuring how quick this machine is\n"


def test_goals_before_the_child_is_ready_wait(own):
    owner = own(functools.partial(build, step_s=0.001))
    assert not owner.server.status.is_ready
    owner.server.submit(make_request("r1", "go"))
    assert owner.result("r1").plan == PLAN


def test_close_ends_every_goal(own):
    owner = own(functools.partial(build, step_s=0.05), reports=False)
    owner.server.submit(make_request("r1", "go"))
    owner.wait_for(lambda: len(owner.segments("r1")) >= 1)
    owner.server.close()
    assert owner.results()["r1"].error_code is ErrorCode.SHUTTING_DOWN
    with pytest.raises(PlannerError, match="SHUTTING_DOWN"):
        owner.server.submit(make_request("r2", "go"))
    owner.server.close()


def load_for_ever() -> PlannerLoop:
    time.sleep(600.0)
    raise AssertionError


def test_close_does_not_wait_for_a_child_that_is_loading(own):
    owner = own(load_for_ever, timeouts=replace(TIMEOUTS, stop_timeout_s=600.0))
    while not owner.server.child_pids:
        time.sleep(0.01)
    closing = threading.Thread(target=owner.server.close, daemon=True)
    closing.start()
    closing.join(60.0)
    assert not closing.is_alive()


PARENT = """
import functools, os, signal, sys, time
from dataclasses import replace
from tests.serving.test_child import TIMEOUTS, Owner, build, stop

if __name__ == "__main__":
    timeouts = replace(TIMEOUTS, hang_timeout_s=600.0, least_hang_timeout_s=600.0)
    owner = Owner(functools.partial(build, 0.001), timeouts=timeouts)
    assert owner.server.wait_ready(30.0)
    if "stopped" in sys.argv:
        stop(owner.child_pid)
    print(owner.child_pid, flush=True)
    if "leave" not in sys.argv:
        time.sleep(600)
"""


SLOW_IMPORT = """
import os, time
from pathlib import Path

if "PARENT" in os.environ and os.getpid() != int(os.environ["PARENT"]):
    Path(os.environ["SAID"]).write_text(f"{os.getpid()}\\n")
    time.sleep(600)

def build():
    raise AssertionError("never imported in the child")
"""
PARENT_OF_SLOW = """
import os, time
from tests.serving.test_child import TIMEOUTS, Owner

if __name__ == "__main__":
    os.environ["PARENT"] = str(os.getpid())
    import slow_import

    owner = Owner(slow_import.build, timeouts=TIMEOUTS)
    time.sleep(600)
"""


def test_nothing_stays_of_a_parent_that_was_killed_while_its_child_imports(tmp_path):
    said, script = tmp_path / "said", tmp_path / "parent.py"
    (tmp_path / "slow_import.py").write_text(SLOW_IMPORT)
    script.write_text(PARENT_OF_SLOW)
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "SAID": str(said)}
    with subprocess.Popen([sys.executable, str(script)], env=environment) as process:
        deadline_s = time.monotonic() + 30.0
        while not said.exists() or not said.read_text().endswith("\n"):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        process.kill()
    try:
        wait_until_gone([int(said.read_text())])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(said.read_text()), signal.SIGKILL)


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that has a server, and prints the id of its child."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(script), *arguments]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    deadline_s = time.monotonic() + 30.0
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.02)


def test_the_child_ignores_ctrl_c(parent):
    process = parent()
    child = int(process.stdout.readline())
    os.kill(child, signal.SIGINT)
    time.sleep(0.2)
    os.kill(child, 0)  # alive


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_nothing_stays_of_a_parent_that_was_killed(parent, state):
    process = parent(state)
    child = int(process.stdout.readline())
    helpers = children(process.pid)
    assert child in helpers
    process.kill()
    process.wait()
    wait_until_gone(helpers)


def test_a_parent_that_does_not_close_its_server_ends_although_the_child_is_stopped(parent):
    process = parent("stopped", "leave")
    child = int(process.stdout.readline())
    assert process.wait(timeout=60.0) == 0
    wait_until_gone([child])
