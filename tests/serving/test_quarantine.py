# SPDX-License-Identifier: Apache-2.0
"""Goals that end every process that is given them end themselves, and take no other with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.serving.quarantine import TRIAL_S, Quarantine


def make_quarantine(*names: str, max_attempts: int = 3) -> Quarantine:
    quarantine = Quarantine(max_attempts)
    for name in names:
        quarantine.add(name, is_urgent=False)
    return quarantine


def fail(quarantine: Quarantine, times: int) -> None:
    """Ends processes that were given all that there was to be given, and got nowhere."""
    for _ in range(times):
        quarantine.begin_process()
        quarantine.take(0.0)
        assert quarantine.end_process() == []


def test_a_process_is_given_every_goal_once():
    quarantine = make_quarantine("a", "b")
    assert quarantine.take(0.0) == ["a", "b"]
    assert quarantine.take(0.0) == []
    quarantine.add("c", is_urgent=False)
    assert quarantine.take(1.0) == ["c"]
    quarantine.begin_process()
    assert quarantine.take(2.0) == ["a", "b", "c"]


def test_a_goal_that_is_always_alone_ends_after_its_attempts():
    quarantine = make_quarantine("a")
    fail(quarantine, 2)
    quarantine.begin_process()
    assert quarantine.take(0.0) == ["a"]
    assert quarantine.end_process() == ["a"]


def test_suspects_are_tried_one_by_one_and_others_wait():
    quarantine = make_quarantine("a", "b")
    fail(quarantine, 2)
    quarantine.add("new", is_urgent=False)
    quarantine.begin_process()
    assert quarantine.take(0.0) == ["a"]
    assert quarantine.take(1.0) == []
    quarantine.progress("a")
    assert quarantine.take(1.0) == ["b"]
    assert quarantine.end_process() == ["b"]  # alone: what has progressed is not to blame
    quarantine.remove("b")
    quarantine.begin_process()
    assert quarantine.take(2.0) == ["a", "new"]


def test_a_trial_ends_with_its_goal_or_with_its_time():
    quarantine = make_quarantine("a", "b", "c")
    fail(quarantine, 2)
    quarantine.begin_process()
    assert quarantine.take(0.0) == ["a"]
    quarantine.remove("a")
    assert quarantine.take(1.0) == ["b"]
    assert quarantine.take(1.0 + TRIAL_S / 2) == []
    assert quarantine.take(1.0 + TRIAL_S) == ["c"]


def test_urgent_goals_do_not_wait():
    quarantine = make_quarantine("a")
    fail(quarantine, 2)
    quarantine.begin_process()
    quarantine.take(0.0)
    quarantine.add("urgent", is_urgent=True)
    assert quarantine.take(0.1) == ["urgent"]
    assert quarantine.end_process() == []  # it is unknown which of them it was


def test_progress_makes_up_for_attempts():
    quarantine = make_quarantine("a")
    fail(quarantine, 2)
    quarantine.begin_process()
    quarantine.take(0.0)
    quarantine.progress("a")
    assert quarantine.end_process() == []
    fail(quarantine, 2)


@pytest.mark.parametrize("max_attempts", [2, 3])
def test_goals_that_are_never_alone_end_too(max_attempts):
    """The process ends later than a trial lasts."""
    quarantine = make_quarantine("a", "b", max_attempts=max_attempts)
    ends = []
    for _ in range(2 * max_attempts):
        quarantine.begin_process()
        quarantine.take(0.0)
        quarantine.take(TRIAL_S)
        ends.append(quarantine.end_process())
    assert ends == [[]] * (2 * max_attempts - 1) + [["a", "b"]]


goals = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 8)), min_size=1, max_size=12)


@given(goals, st.integers(2, 4))
def test_the_innocent_go_on(goals, max_attempts):
    """A process that is given a poisonous goal ends before it has brought any of the goals further."""
    poison = {f"g{n}" for n, (is_poison, _, _) in enumerate(goals) if is_poison}
    poison = set(sorted(poison)[:2])
    quarantine, unfinished, ended = Quarantine(max_attempts), set(), []
    for turn in range(100):
        quarantine.begin_process()
        for n, (_, is_urgent, arrives_at) in enumerate(goals):
            if arrives_at == turn:
                quarantine.add(f"g{n}", is_urgent=is_urgent)
                unfinished.add(f"g{n}")
        has_died = False
        while not has_died and (given := quarantine.take(float(turn))):
            has_died = not poison.isdisjoint(given)
            for name in () if has_died else given:
                quarantine.progress(name)
                quarantine.remove(name)
                unfinished.discard(name)
        for name in quarantine.end_process() if has_died else ():
            ended.append(name)
            quarantine.remove(name)
            unfinished.discard(name)
    assert set(ended) == poison
    assert not unfinished


def test_a_goal_that_moves_keeps_what_is_known_against_it():
    here, there = make_quarantine("a", "b", max_attempts=2), make_quarantine("c", max_attempts=2)
    fail(here, 1)
    assert here.movable(with_suspects=False) == []
    assert here.movable(with_suspects=True) == ["a", "b"]
    there.adopt("a", here)
    assert ("a" in here, "a" in there, list(here)) == (False, True, ["b"])
    there.begin_process()
    assert there.take(0.0) == ["a"]  # a suspect: alone
    assert there.end_process() == ["a"]
