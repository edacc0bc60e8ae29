# SPDX-License-Identifier: Apache-2.0
"""Several engine processes behind one server: which of them has a goal, and what happens when one dies."""

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.serving import child
from llm_planner.serving.child import ChildServer
from llm_planner.serving.events import SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.meter import have_fallen
from llm_planner.serving.preparation import Prepared
from llm_planner.serving.replica import Factories
from llm_planner.serving.view import LoopView
from tests.serving.builders import StubPreparer, make_admission, make_loop, make_request
from tests.serving.test_child import PLAN, TIMEOUTS, Owner, build, build_nothing, start_slowly, stop

WAIT_S = 30.0
SLOW = functools.partial(build, step_s=0.03)


@pytest.fixture
def own() -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def make(*replicas: Factories, are_ready: bool = True, **options: Any) -> Owner:
        first, *others = replicas
        owner = Owner(first.first, next_factory=first.later, others=others, **options)
        owners.append(owner)
        until_s = time.monotonic() + WAIT_S
        while are_ready and owner.server.status.num_ready < len(replicas):
            assert time.monotonic() < until_s, "not all replicas became ready"
            time.sleep(0.01)
        return owner

    yield make
    for owner in owners:
        owner.server.close()
        assert owner.server.child_pids == []


def homes(owner: Owner) -> list[list[str]]:
    """The unfinished goals of each replica."""
    with owner.server._lock:
        return [list(replica.quarantine) for replica in owner.server._replicas]


def submit(owner: Owner, *names: str, **options: Any) -> None:
    for name in names:
        owner.server.submit(make_request(name, "go", robot_id=name, **options))


def view_when(owner: Owner, condition: Callable[[LoopView], bool]) -> LoopView:
    """The first view of all engines for which something holds."""
    until_s = time.monotonic() + WAIT_S
    while (view := owner.server.status.view) is None or not condition(view):
        assert time.monotonic() < until_s
        owner.server.look()
        time.sleep(0.01)
    return view


def require_whole(owner: Owner, *names: str) -> None:
    """Every plan came whole, each segment once."""
    for name in names:
        result = owner.result(name)
        assert result.error_code is ErrorCode.NONE, result
        assert "".join(owner.segments(name)) == result.plan == PLAN
        assert [segment.index for segment in result.segments] == list(range(6))


def test_the_second_engine_starts_when_the_first_is_ready_and_goals_are_shared(own):
    owner = own(Factories(SLOW), Factories(SLOW))
    assert len(set(owner.server.child_pids)) == 2
    submit(owner, "a", "b", "c", "d")
    assert homes(owner) == [["a", "c"], ["b", "d"]]
    require_whole(owner, "a", "b", "c", "d")
    assert homes(owner) == [[], []]


def test_before_any_engine_is_ready_goals_wait_for_the_first(own):
    owner = own(Factories(start_slowly), Factories(SLOW), are_ready=False)
    submit(owner, "a", "b")
    assert homes(owner) == [["a", "b"], []]
    assert not owner.server.status.is_ready
    assert owner.server.cancel("a")
    assert homes(owner) == [["b"], []]


def test_a_goal_may_come_before_the_server_is_started():
    served = threading.Event()
    book = GoalBook(make_admission(), lambda event: served.set() if isinstance(event, SegmentReady) else None)
    server = ChildServer([Factories(SLOW), Factories(SLOW)], book=book, clock=MonotonicClock())
    server.submit(make_request("a", "go"))
    server.start()
    assert served.wait(WAIT_S)
    server.close()


def test_goals_of_an_engine_that_dies_go_on_in_the_other_without_waiting_for_the_next(own):
    owner = own(Factories(SLOW, start_slowly), Factories(SLOW))
    submit(owner, "a", "b", "c", "d")
    owner.wait_for(lambda: all(len(owner.segments(name)) >= 2 for name in "abcd"))
    os.kill(owner.server.child_pids[0], signal.SIGKILL)
    require_whole(owner, "a", "b", "c", "d")
    status = owner.server.status
    assert (status.is_ready, status.num_ready, status.num_restarts) == (True, 1, 1)
    submit(owner, "e")  # the one that starts gets nothing
    assert homes(owner)[0] == []
    require_whole(owner, "e")


def test_an_engine_that_was_replaced_is_given_goals_again(own):
    owner = own(Factories(SLOW), Factories(SLOW))
    os.kill(owner.server.child_pids[0], signal.SIGKILL)
    until_s = time.monotonic() + WAIT_S
    while not (owner.server.status.num_restarts and owner.server.status.num_ready == 2):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    submit(owner, "a", "b")
    assert sorted(map(len, homes(owner))) == [1, 1]
    require_whole(owner, "a", "b")


def test_a_goal_that_kills_engines_ends_and_takes_no_other_with_it(own):
    dying = functools.partial(build, step_s=0.001, dies_at="poison")
    owner = own(Factories(dying), Factories(dying))
    names = [f"r{number}" for number in range(6)]
    for name in names:
        owner.server.submit(make_request(name, "poison" if name == "r2" else "go", robot_id=name))
    assert owner.result("r2").error_code is ErrorCode.ENGINE_FAILED
    require_whole(owner, *(name for name in names if name != "r2"))


def test_an_engine_that_cannot_start_leaves_the_work_to_the_others(own):
    owner = own(Factories(build_nothing), Factories(SLOW), are_ready=False)
    submit(owner, "a")  # waits for the first
    require_whole(owner, "a")
    assert owner.server.wait_ready(WAIT_S)
    assert owner.server.status.error is None
    submit(owner, "b")
    require_whole(owner, "b")


def test_the_server_gives_up_when_all_engines_have(own):
    owner = own(Factories(build_nothing), Factories(build_nothing), are_ready=False)
    with pytest.raises(PlannerError, match="no such model"):
        owner.server.wait_ready(WAIT_S)
    with pytest.raises(PlannerError, match="no such model"):
        submit(owner, "a")


def test_an_urgent_goal_goes_where_the_fewest_urgent_ones_are(own):
    owner = own(Factories(SLOW), Factories(SLOW))
    submit(owner, "urgent", urgency=Urgency.URGENT)
    submit(owner, "a", "b")
    submit(owner, "second", urgency=Urgency.URGENT)
    assert homes(owner)[1][-1] == "second"
    require_whole(owner, "urgent", "a", "b", "second")


def test_an_engine_that_hangs_gets_no_new_goals(own):
    timeouts = replace(TIMEOUTS, warn_timeout_s=0.3, least_hang_timeout_s=600.0, hang_timeout_s=600.0)
    owner = own(Factories(SLOW), Factories(SLOW), timeouts=timeouts)
    stop(hanging := owner.server.child_pids[0])
    while owner.server.status.silent_s is None:
        time.sleep(0.01)
    submit(owner, "a", "b")
    submit(owner, "urgent", urgency=Urgency.URGENT)
    assert homes(owner) == [[], ["a", "b", "urgent"]]
    require_whole(owner, "a", "b", "urgent")
    os.kill(hanging, signal.SIGCONT)


class Unreachable(StubPreparer):
    """Stands for a model server that does not answer."""

    def prepare(self, request: PlanRequest) -> Prepared:
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "nothing answers at http://192.0.2.1:8000/v1")


def build_unreachable() -> PlannerLoop:
    backend = FakeBackend(timing=FakeTiming(step_s=0.001), sleep=time.sleep)
    return make_loop(backend=backend, preparer=Unreachable(backend))


def test_what_one_model_server_does_not_answer_another_one_does(own):
    owner = own(Factories(build_unreachable), Factories(SLOW))
    submit(owner, "a")
    require_whole(owner, "a")
    submit(owner, "b", "c")
    assert homes(owner)[0] == []  # avoided for a while
    require_whole(owner, "b", "c")


def test_if_no_model_server_answers_the_goal_ends_with_that(own):
    owner = own(Factories(build_unreachable), Factories(build_unreachable))
    submit(owner, "a")
    result = owner.result("a")
    assert (result.error_code, "nothing answers" in result.error_msg) == (ErrorCode.ENGINE_FAILED, True)


RETRY_S = 0.6


class OnlyWhile(FakeBackend):
    """Stands for a model server that answers only while a file is there: else goals fail after a while."""

    file: Path

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        if self.file.exists() or not scheduled.num_scheduled_tokens:
            return super().execute(scheduled)
        time.sleep(RETRY_S)
        failed = dict.fromkeys(scheduled.num_scheduled_tokens, "nothing answers")
        return StepOutput(failed=failed, unanswered=frozenset(failed), duration_s=RETRY_S)


def build_only_while(file: Path) -> PlannerLoop:
    backend = OnlyWhile(plans={"go": PLAN}, sleep=time.sleep)
    backend.file = file
    return make_loop(backend=backend, policy="fcfs_stream")


def test_while_all_model_servers_are_gone_a_goal_is_tried_once_by_each(own, monkeypatch, tmp_path):
    monkeypatch.setattr(child, "AVOIDED_S", RETRY_S / 6)
    gone = Factories(functools.partial(build_only_while, tmp_path / "never"))
    owner = own(gone, gone)
    submit(owner, "a")
    assert owner.result("a").error_code is ErrorCode.ENGINE_FAILED
    submit(owner, "b", urgency=Urgency.URGENT)
    assert owner.result("b").error_code is ErrorCode.ENGINE_FAILED


def test_a_model_server_that_did_not_answer_is_tried_with_one_goal_that_can_wait(own, monkeypatch, tmp_path):
    monkeypatch.setattr(child, "AVOIDED_S", 0.1)
    file = tmp_path / "up"
    owner = own(Factories(functools.partial(build_only_while, file)), Factories(SLOW))
    submit(owner, "a")
    require_whole(owner, "a")
    time.sleep(0.2)
    submit(owner, "urgent", urgency=Urgency.URGENT)
    submit(owner, "hurried", time_budget_s=30.0)
    submit(owner, "b", "c")
    assert homes(owner) == [["b"], ["urgent", "hurried", "c"]]
    require_whole(owner, "urgent", "hurried", "b", "c")
    file.touch()
    time.sleep(0.2)
    submit(owner, "d")
    assert homes(owner)[0] == ["d"]
    require_whole(owner, "d")
    submit(owner, "e", urgency=Urgency.URGENT)
    assert homes(owner)[0] == ["e"]
    require_whole(owner, "e")


def test_status_and_view_are_of_all_engines_together(own):
    owner = own(Factories(SLOW), Factories(SLOW))
    submit(owner, "a", "b")
    view = view_when(owner, lambda view: len(view.goals) == 2)
    assert {goal.request_id for goal in view.goals} == {"a", "b"}
    alone = owner.server._replicas[0].view
    assert view.max_num_seqs == 2 * alone.max_num_seqs
    assert view.status.num_kv_blocks == 2 * alone.status.num_kv_blocks
    assert view.totals.busy_s <= max(replica.view.totals.busy_s for replica in owner.server._replicas)
    assert owner.server.status.num_replicas == 2


def test_an_engine_that_is_gone_is_not_shown_but_what_it_did_stays_counted(own):
    owner = own(Factories(SLOW, start_slowly), Factories(SLOW))
    submit(owner, "a", "b")
    both = view_when(owner, lambda view: len(view.goals) == 2)
    os.kill(owner.server.child_pids[0], signal.SIGKILL)
    alone = view_when(owner, lambda view: view.at_s > both.at_s + 0.5)
    assert alone.max_num_seqs == both.max_num_seqs / 2
    assert len({goal.request_id for goal in alone.goals}) == len(alone.goals)  # they go on in the other
    assert owner.server.status.loop.num_kv_blocks == both.status.num_kv_blocks / 2
    assert not have_fallen(both.totals, alone.totals)
