# SPDX-License-Identifier: Apache-2.0
"""Each invariant is broken by what it forbids, and by nothing else."""

import pytest

from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.chaos.checks import (
    RobotCheck,
    Span,
    check_engine,
    check_engine_starts,
    check_goals,
    check_stop,
    check_success,
    recoveries,
)
from llm_planner_lab.bench.chaos.goals import SCRIPT, Goal

TELLO = RobotLibrary().get("tello")
PLAN = ("l('g1 begins');", "mf(20);", "2{tc(30);}")
CALLS = (["l", "g1 begins"], ["mf", 20.0], ["tc", 30.0], ["tc", 30.0])
ENDED_S = 100.0


def journal(*lines, pid=1, step_s=0.1):
    return [{"at_s": step_s * number, "pid": pid, **line} for number, line in enumerate(lines, 1)]


def asked(goal="a", tag="g1"):
    return {"kind": "asked", "goal": goal, "instruction": f"{SCRIPT}l('{tag} begins');"}


def begun(goal="a"):
    return {"kind": "begin", "goal": goal, "is_chat": False}


def received(index, goal="a", text=None):
    return {"kind": "received", "goal": goal, "index": index, "text": text or PLAN[index]}


def report(status, index, goal="a"):
    return {"kind": "report", "goal": goal, "index": index, "status": status}


def call(words):
    return {"kind": "call", "call": words}


def carried_out(index, *calls, goal="a"):
    return (
        received(index, goal), report("STARTED", index, goal), *map(call, calls), report("SUCCEEDED", index, goal)
    )  # fmt: skip


WHOLE = (
    asked(), begun(), *carried_out(0, CALLS[0]), *carried_out(1, CALLS[1]), *carried_out(2, *CALLS[2:]),
    {"kind": "inactive", "goal": "a"},
)  # fmt: skip


def check(*lines, admitted=PLAN, until_s=ENDED_S, faulted=(), **options):
    found = RobotCheck(
        robot="drone_1", model=TELLO, time_scale=1.0, admitted={"a": set(admitted), "b": set(admitted)}, faulted=faulted
    )
    found.follow(journal(*lines, **options), until_s)
    return found


def broken(*lines, **options):
    return {violation.invariant for violation in check(*lines, **options).violations}


def test_a_plan_that_is_carried_out_breaks_nothing():
    found = check(*WHOLE)
    assert found.violations == []
    assert (found.num_segments, found.num_calls) == (3, 4)
    assert [list(words) for words in found.calls_of["g1"]] == list(CALLS)


def test_what_a_robot_also_does_without_being_told_counts_where_its_plan_says_so():
    told = (asked(), begun(), received(0, text="ld();"), report("STARTED", 0))
    ends = (report("SUCCEEDED", 0), {"kind": "inactive", "goal": "a"})
    assert broken(*told, call(["ld"]), *ends, admitted=("ld();",)) == set()
    assert broken(*told, call(["h"]), *ends, admitted=("ld();",)) == {"false_success"}


@pytest.mark.parametrize(
    ("lines", "invariant"),
    [
        ((*WHOLE[:-1], report("STARTED", 1), call(CALLS[1])), "segments_twice"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(["l", "g2 begins"])), "foreign_calls"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(CALLS[1])), "calls_not_admitted"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(CALLS[0]), call(CALLS[0])), "calls_not_admitted"),
        ((asked(), begun(), call(CALLS[0])), "calls_not_admitted"),
        ((asked(), begun(), report("STARTED", 0), report("FAILED", 0)), "calls_not_admitted"),
        ((asked(), begun(), received(0, text="tp();"), report("STARTED", 0)), "calls_not_admitted"),
        ((asked(), begun(), *carried_out(2, CALLS[2])), "false_success"),
    ],
)  # fmt: skip
def test_what_is_forbidden_breaks_its_invariant(lines, invariant):
    last_s = 0.1 * len(lines)
    assert broken(*lines, until_s=last_s) == {invariant}


def test_a_segment_of_the_goal_before_is_foreign_though_its_gate_admitted_it():
    lines = (*WHOLE, asked("b", "g2"), begun("b"), *carried_out(0, CALLS[0], goal="b"))
    assert broken(*lines, until_s=0.1 * len(lines)) == {"foreign_calls", "false_success"}


@pytest.mark.parametrize("instructions", [("turn right", "stop"), (f"{SCRIPT}l('g1 begins');", f"{SCRIPT}mf(20);")])
def test_a_segment_that_is_begun_after_another_goal_has_begun_is_foreign_whatever_the_goals_were_told(instructions):
    old, new = ({"kind": "asked", "goal": g, "instruction": text} for g, text in zip("ab", instructions, strict=True))
    lines = (old, begun(), new, begun("b"), *carried_out(1, CALLS[1]))
    assert broken(*lines, until_s=0.1 * len(lines)) == {"foreign_calls"}


def test_a_halted_segment_needs_no_more_calls_and_a_new_process_begins_again():
    halted = (asked(), begun(), received(2), report("STARTED", 2), call(CALLS[2]), report("FAILED", 2))
    again = [{**line, "pid": 2} for line in halted]
    assert broken(*halted, *again, until_s=1.2) == set()


SILENT_S = TELLO.silence[0].after_s


@pytest.mark.parametrize(("late_s", "is_broken"), [(0.0, False), (0.49, False), (0.51, True), (50.0, True)])
def test_silence_steps_begin_half_a_second_after_their_time_at_the_latest(late_s, is_broken):
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    hover = {"kind": "call", "call": ["h"], "at_s": 10.0 + SILENT_S + late_s, "pid": 1}
    found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
    found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, hover], ENDED_S)
    assert bool(found.violations) == is_broken
    assert found.silence_delays_s == pytest.approx([] if is_broken else [late_s])


def test_silence_counts_from_the_last_sign_of_life_and_not_while_a_segment_runs():
    life = [{"kind": "life", "received_s": 0.5 * n} for n in range(60)]
    assert broken(begun(), *life, step_s=0.5, until_s=30.0) == set()
    assert broken(begun(), received(1), report("STARTED", 1), call(CALLS[1])) == set()
    assert broken(begun()) == {"robots_unsafe"}
    assert broken(begun(), faulted=[Span(2.0, 3.0)]) == set()
    assert broken(begun(), {"kind": "inactive", "goal": "a"}) == set()


@pytest.mark.parametrize(("killed_s", "is_broken"), [(9.5, True), (11.0, False)])  # a process before, this process
def test_a_fault_excuses_the_process_of_a_robot_that_it_hit_and_not_the_next(killed_s, is_broken):
    lines = [
        {"kind": "started", "at_s": 9.0, "pid": 1},
        {"kind": "started", "at_s": 10.0, "pid": 2},
        {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.5, "pid": 2},
    ]
    found = RobotCheck(
        robot="drone_1", model=TELLO, time_scale=1.0, admitted={}, faulted=[Span(killed_s, killed_s + 60)]
    )
    found.follow(lines, 30.0)
    assert [v.invariant for v in found.violations] == ["robots_unsafe"] * is_broken


def goal(**fields):
    told = {"instruction": "exactly: " + "".join(PLAN), "plan": "".join(PLAN)}
    defaults = {"number": 1, "robot": "drone_1", "is_urgent": False, "asked_s": 0.0, "pid": 7} | told
    return Goal(**defaults | fields)


def test_a_goal_is_lost_if_its_robot_lived_longer_than_the_bound():
    living, dead = {"drone_1": [(7, float("inf"))]}, {"drone_1": [(7, 12.0)]}
    lost = goal(accepted_s=1.0)
    assert [v.invariant for v in check_goals([lost], 100.0, 60.0, living)] == ["goals_lost"]
    assert lost.verdict == "lost"
    for ended, alive, verdict in ((100.0, dead, "robot ended"), (30.0, living, "campaign ended")):
        open_goal = goal(accepted_s=1.0)
        assert check_goals([open_goal], ended, 60.0, alive) == []
        assert open_goal.verdict == verdict
    assert check_goals([goal()], 100.0, 60.0, living) == []  # no bound was guaranteed


def test_every_outcome_needs_a_numbered_code_and_none_needs_every_call():
    assert [v.invariant for v in check_goals([goal(code=999)], 100.0, 60.0, {})] == ["ended_without_code"]
    assert check_goals([goal(code=600)], 100.0, 60.0, {}) == []
    robots = {"drone_1": check(*WHOLE)}
    assert check_success([goal(code=0)], robots) == []
    assert [v.invariant for v in check_success([goal(code=0, plan="tp();")], robots)] == ["false_success"]
    assert check_success([goal(code=0, plan="", instruction="land")], robots) == []  # a model decides


def test_a_goal_whose_segment_failed_may_make_calls_again_but_must_make_all():
    tried = (received(0), report("STARTED", 0), call(CALLS[0]), report("FAILED", 0))
    texts = (PLAN[0], "rp();", *PLAN)
    whole = (asked(), begun(), *tried)
    for index, calls in ((2, CALLS[:1]), (3, CALLS[1:2]), (4, CALLS[2:])):
        text = received(index, text=texts[index])
        whole += (text, report("STARTED", index), *map(call, calls), report("SUCCEEDED", index))
    robots = {"drone_1": check(*whole, {"kind": "inactive", "goal": "a"})}
    assert robots["drone_1"].violations == []
    assert check_success([goal(code=0)], robots) == []
    assert check_success([goal(code=0, plan=goal().plan + "tp();")], robots) != []  # one is missing
    robots["drone_1"].failed.clear()
    assert check_success([goal(code=0)], robots) != []  # without a reason


def test_an_engine_is_back_when_a_new_process_admits_a_segment():
    lines = [
        {"kind": "admitted", "at_s": 1.0, "pid": 1},
        {"kind": "admitted", "at_s": 10.1, "pid": 1},  # written before it was killed
        {"kind": "ready", "at_s": 14.0, "pid": 2, "load_s": 3.5},
        {"kind": "admitted", "at_s": 14.5, "pid": 2},
    ]
    (back,) = recoveries(lines, [10.0])
    assert (back.after_s, back.load_s) == (4.5, 3.5)
    assert len(recoveries(lines, [10.0, 12.0])) == 1  # killed again before it was back
    assert recoveries(lines, []) == recoveries(lines, [20.0]) == []  # not in this journal: see check_engine
    again = [{**line, "pid": 3, "at_s": line["at_s"] + 1.0} for line in lines[2:]]
    (back,) = recoveries([*lines[:3], *again], [10.0])  # the second has ended before it admitted anything
    assert back.after_s == 5.5


READY = {"kind": "ready", "at_s": 4.0, "pid": 1, "load_s": 3.0}
BACK = ({**READY, "at_s": 14.0, "pid": 2}, {"kind": "admitted", "at_s": 14.5, "pid": 2})
LATE = (BACK[0], {**BACK[1], "at_s": 18.5})
NEVER = ()


@pytest.mark.parametrize(
    ("lines", "faults", "until_s", "num_judged", "is_late"),
    [
        (BACK, [], 60.0, 1, False),
        (LATE, [], 60.0, 1, True),
        (LATE, [Span(12.0, 12.0)], 60.0, 0, False),
        (NEVER, [], 60.0, 1, True),
        (BACK[:1], [], 60.0, 1, True),
        (NEVER, [], 17.0, 0, False),  # it has 8 s
        (NEVER, [Span(12.0, 13.0)], 20.0, 0, False),
        (NEVER, [Span(12.0, 13.0)], 60.0, 1, True),  # 8 s without a fault came later
        (NEVER, [Span(s, s + 1.0) for s in range(12, 60, 6)], 60.0, 0, False),
        (NEVER, [Span(9.0, 20.0)], 25.0, 0, False),
    ],
)
def test_a_killed_engine_is_back_in_time_unless_other_faults_are_in_the_way(
    lines, faults, until_s, num_judged, is_late
):
    own = Span(10.001, 10.001)
    judged, found = check_engine([READY, *lines], [10.0], [own, *faults], until_s)
    assert judged == num_judged
    assert [v.invariant for v in found] == ["engine_late"] * is_late


def test_of_two_kills_the_first_is_not_judged_if_it_left_no_time():
    assert check_engine([READY, *BACK], [8.0, 10.0], [Span(8.0, 8.0), Span(10.0, 10.0)], 60.0) == (1, [])
    assert check_engine([READY], [], [], 60.0) == (0, [])


@pytest.mark.parametrize(
    ("faults_s", "born_s", "num_broken"),
    [
        ([], [], 0),
        ([10.0], [10.02], 0),
        ([10.0], [9.99], 0),  # a fault is noted after it was done
        ([10.0], [30.0], 0),  # its planner started again first
        ([], [10.0], 1),
        ([10.0], [10.1, 12.0], 1),
        ([10.0, 11.0], [10.1, 12.0], 0),
        ([10.0], [200.0], 1),
    ],
)
def test_an_engine_that_replaces_one_needs_a_fault_of_its_own(faults_s, born_s, num_broken):
    lines = [READY, *({**READY, "at_s": s + READY["load_s"], "pid": n} for n, s in enumerate(born_s, 2))]
    assert [v.invariant for v in check_engine_starts(lines, faults_s)] == ["processes_ended"] * num_broken


@pytest.mark.parametrize(
    ("alive", "hung"),
    [
        ({"drone_1", "drone_12", "arm_1"}, ["drone_1 had to be killed", "drone_12 had to be killed"]),
        ({"drone_1", "arm_1"}, ["drone_1 had to be killed"]),  # a fault has killed the other, and it is not back yet
        (set(), []),
    ],
)
def test_whatever_was_alive_must_end_by_itself(alive, hung):
    found = check_stop({"drone_1": -9, "drone_12": -14, "arm_1": 0}, alive, 7.0)
    assert [(v.invariant, v.what) for v in found] == [("hangs_at_stop", what) for what in hung]


def test_a_robot_without_a_processor_has_more_time_and_one_that_is_early_is_in_time():
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    starved = {"kind": "starved", "seconds": 2.0, "since_s": 10.0, "pid": 1}
    for late_s, seconds, is_broken in ((-0.1, 0.0, False), (2.4, 2.0, False), (2.6, 2.0, True)):
        at_s = 10.0 + SILENT_S + late_s
        lines = [{**starved, "seconds": seconds, "at_s": at_s}, {"kind": "call", "call": ["h"], "at_s": at_s, "pid": 1}]
        found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
        found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, *lines], ENDED_S)
        assert bool(found.violations) == is_broken


LATE_S = SILENT_S + 0.6  # 0.1 s beyond the bound


@pytest.mark.parametrize(
    ("since_s", "starved_at_s", "seconds", "pid", "is_broken"),
    [
        (0.2, 5.7, 5.0, 1, False),  # the process had no processor, and another thread wrote before the control loop
        (5.4, 5.7, 0.3, 1, False),
        (5.4, 5.7, 0.15, 1, True),  # 0.1 s of it may have come afterwards
        (5.6, 5.9, 0.3, 1, True),  # all of it came afterwards
        (5.4, 5.7, 0.3, 2, True),  # of another process
    ],
)
def test_a_line_that_another_thread_writes_first_does_not_hide_that_there_was_no_processor(
    since_s, starved_at_s, seconds, pid, is_broken
):
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    life = {"kind": "life", "received_s": 10.0 + LATE_S - 0.01, "at_s": 10.0 + LATE_S, "pid": 1}
    starved = {
        "kind": "starved",
        "seconds": seconds,
        "since_s": 10.0 + since_s,
        "at_s": 10.0 + starved_at_s,
        "pid": pid,
    }
    found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
    end = {"kind": "inactive", "goal": "a", "at_s": 16.0, "pid": 1}
    found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, life, starved, end], ENDED_S)
    assert bool(found.violations) == is_broken


def test_a_line_counts_from_when_it_was_noted_though_it_was_written_later():
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    hover = {"kind": "call", "call": ["h"], "at_s": 10.0 + SILENT_S, "pid": 1}
    life = {"kind": "life", "received_s": 10.0 + LATE_S, "at_s": 10.0 + LATE_S, "pid": 1}
    for lines, is_broken in (((life, hover), False), ((life,), True)):
        found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
        found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, *lines], 16.0)
        assert bool(found.violations) == is_broken
