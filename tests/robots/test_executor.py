# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.segment import BlockEdge, ExpectedDuration, ReportStatus, Situation, make_replan
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.language.prose import reading_time
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.sim.emulator.faults import Faults
from tests.robots.builders import LIBRARY, drone, segment
from tests.robots.drivers.virtual import Pilot

STARTED, SUCCEEDED, FAILED, SKIPPED = (ReportStatus[name] for name in ("STARTED", "SUCCEEDED", "FAILED", "SKIPPED"))


class Robot:
    """A drone with an executor, its reports, and a clock."""

    def __init__(self, driver=None, look=None):
        self.driver = driver or drone()
        self.reports = []
        self.now_s = 0.0
        self.executor = SegmentExecutor(self.driver.model, self.driver, self.reports.append, look)
        self.executor.begin("goal", 0.0)

    def add(self, *segments):
        return [self.executor.add(self.executor.request_id, s, self.now_s) for s in segments]

    def expect(self, num_segments, **options):
        self.executor.expect(self.executor.request_id, num_segments, self.now_s, **options)

    def run(self, seconds, step_s=0.05):
        for _ in range(round(seconds / step_s)):
            self.executor.tick(self.now_s)
            self.now_s += step_s

    def events(self):
        return [(r.index, r.status) for r in self.reports]


def test_runs_segments_in_order_and_reports_each():
    robot = Robot()
    assert robot.add(segment(1, "->od(chair);"), segment(0)) == [True, True]
    robot.expect(2)
    robot.run(5)
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED), (1, STARTED), (1, SUCCEEDED)]
    assert robot.reports[1].duration_s == pytest.approx(2.65, abs=0.6)
    assert robot.reports[3].value == pytest.approx(200)
    assert robot.executor.state is ExecutorState.DONE
    assert all(r.request_id == "goal" for r in robot.reports)


def test_where_a_partial_plan_ends_the_robot_stops_and_holds():
    robot = Robot()
    robot.add(segment(0, "mf(100);"))
    robot.expect(1, is_partial=True)
    robot.run(3)
    assert robot.executor.state is ExecutorState.DONE
    assert not robot.executor.is_acting
    assert robot.driver._num_calls == {"mf": 1, "h": 1}
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED)]  # its own call belongs to no segment
    for _ in range(4):  # it hovers as long as it hears of the planner
        robot.run(50)
        robot.executor.receive(robot.now_s)
    assert robot.driver.state.pose.z_m == 1.0
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0.0


def test_a_gap_waits_and_asks_for_what_is_missing():
    robot = Robot()
    robot.add(segment(0), segment(2))
    assert robot.executor.next_missing_index == 1
    robot.run(4.5)
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED)]
    assert robot.executor.next_missing_index == 1
    robot.add(segment(1))
    assert robot.executor.next_missing_index == 3
    robot.run(6)
    assert [i for i, status in robot.events() if status is SUCCEEDED] == [0, 1, 2]


def test_duplicates_are_refused_whatever_became_of_the_first():
    robot = Robot()
    assert robot.add(segment(0), segment(0)) == [True, False]
    robot.run(0.2)
    assert robot.add(segment(0)) == [False]  # running
    robot.run(5)
    assert robot.add(segment(0)) == [False]  # done
    assert robot.add(segment(99999)) == [False]  # too far ahead


def test_a_failed_segment_ends_the_goal_and_stops_the_robot():
    robot = Robot()
    robot.add(segment(0, "a(unicorn);"), segment(1))
    robot.run(3)
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    assert robot.reports[1].reason == "a: unicorn is not visible"
    assert robot.executor.state is ExecutorState.FAILED
    assert robot.add(segment(2)) == [False]
    robot.executor.begin("next", robot.now_s)
    robot.add(segment(0))
    robot.run(4)
    assert robot.reports[-1].request_id == "next"
    assert robot.reports[-1].status is SUCCEEDED


def test_text_that_is_no_plan_fails_its_segment():
    robot = Robot()
    robot.add(segment(0, "mf(100"))
    robot.run(1)
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    assert robot.reports[1].reason


@pytest.mark.parametrize("returns", [["->True;"], ["?iv(cat)==False{->False;}"], ["?iv(chair){", "->True;", "}"]])
def test_what_lies_behind_a_return_is_skipped(returns):
    robot = Robot()
    robot.add(*parts(*returns, "mf(100);", "?iv(chair){", "tc(90);", "}", "ld();"))
    robot.expect(len(returns) + 5)
    robot.run(2)
    assert robot.executor.state is ExecutorState.DONE
    assert not {"mf", "tc", "ld"}.intersection(names(robot))
    num_run = len(returns[:2])
    skipped = [(index, SKIPPED) for index in range(num_run, len(returns) + 5)]
    assert ends(robot) == [*((index, SUCCEEDED) for index in range(num_run)), *skipped]
    assert [bool(r.said) for r in robot.reports if r.status is not STARTED] == [
        index == num_run - 1 for index in range(len(returns) + 5)
    ]


def test_a_silent_planner_makes_the_drone_hover_then_land():
    robot = Robot()
    robot.add(segment(0))
    robot.run(4)
    assert robot.events()[-1] == (0, SUCCEEDED)
    robot.run(50)
    assert robot.driver.state.pose.z_m == 1
    robot.run(20)
    assert robot.driver.state.pose.z_m == 0
    robot.add(segment(1))
    robot.run(1)
    assert robot.reports[-1].reason == "mf: is not flying; take off first"


@pytest.mark.parametrize("is_finished", [False, True])
def test_signs_of_life_keep_it_in_the_air_and_without_them_it_lands(is_finished):
    robot = Robot()
    if is_finished:
        robot.expect(0)
    for _ in range(3):
        robot.run(50)
        robot.executor.receive(robot.now_s)
    assert robot.driver.state.pose.z_m == 1
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0
    assert robot.executor.state is (ExecutorState.DONE if is_finished else ExecutorState.ACTIVE)


def test_a_robot_that_never_hears_of_a_planner_or_whose_goal_was_stopped_lands_too():
    robot = Robot()
    robot.executor.stop(robot.now_s, "stopped")
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0
    driver = drone()
    alone = SegmentExecutor(driver.model, driver, robot.reports.append)
    for step in range(1400):
        alone.tick(1000.0 + 0.05 * step)  # of a clock that did not begin with it
        assert step < 1190 or driver.state.pose.z_m <= 1.0
    assert driver.state.pose.z_m == 0
    assert robot.reports == []


def test_a_gap_counts_as_silence():
    robot = Robot()
    robot.add(segment(1))
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0


def test_a_segment_waits_for_a_landing_that_has_begun():
    robot = Robot()
    robot.run(60.3)
    robot.add(segment(0, "tk();"))
    robot.run(8)
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED)]
    assert robot.driver.state.pose.z_m == 1


def test_cancel_stops_at_once():
    robot = Robot()
    robot.add(segment(0, "mf(500);"), segment(1))
    robot.run(3)
    robot.executor.cancel(robot.now_s)
    stopped_m = robot.driver.state.pose.x_m
    assert 0 < stopped_m < 5
    robot.run(5)
    assert robot.driver.state.pose.x_m == stopped_m
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    assert robot.reports[-1].reason == "cancelled"
    robot.executor.cancel(robot.now_s)  # again: nothing happens
    assert len(robot.reports) == 2


def test_a_reflex_interrupts_and_backs_off():
    robot = Robot()
    robot.add(segment(0, "mf(500);"))
    robot.run(3)
    robot.executor.reflex(robot.now_s, [SkillCall("h"), SkillCall("mb", (50.0,))], "obstacle ahead")
    before_m = robot.driver.state.pose.x_m
    robot.run(4)
    assert robot.driver.state.pose.x_m == pytest.approx(before_m - 0.5, abs=0.01)
    assert robot.reports[-1].reason == "obstacle ahead"
    assert robot.executor.state is ExecutorState.FAILED


def test_a_reflex_between_segments_is_reported_to_the_planner_if_there_is_a_goal():
    robot = Robot()
    robot.add(segment(0))
    robot.run(4)
    robot.executor.reflex(robot.now_s, reason="bump")
    assert robot.events()[-1] == (1, FAILED)
    count = len(robot.reports)
    robot.executor.reflex(robot.now_s)
    assert len(robot.reports) == count


@pytest.mark.parametrize("how", ["reflex", "broken tick", "stop"])
def test_a_landing_of_silence_that_is_cut_short_is_taken_up_again(how):
    robot = Robot()
    robot.run(61.0)
    if how == "broken tick":
        robot.driver.tick, tick = Mock(side_effect=OSError("a lost packet")), robot.driver.tick
        with pytest.raises(OSError, match="lost"):
            robot.run(1)
        robot.driver.tick = tick
    if how == "stop":
        robot.executor.stop(robot.now_s, "a person")
    else:
        robot.executor.reflex(robot.now_s)
    height_m = robot.driver.state.pose.z_m
    assert 0 < height_m < 1
    robot.run(7 if how != "stop" else 59)
    assert robot.driver.state.pose.z_m == height_m
    robot.run(5)
    assert robot.driver.state.pose.z_m == 0


def test_a_landing_of_silence_that_could_not_begin_is_taken_up_again():
    robot = Robot()
    robot.run(59.0)
    robot.driver.start, start = Mock(side_effect=OSError("a lost packet")), robot.driver.start
    with pytest.raises(OSError, match="lost"):
        robot.run(2)
    robot.driver.start = start
    robot.executor.reflex(robot.now_s, reason="a lost packet")
    robot.run(15)
    assert robot.driver.state.pose.z_m == 0


def test_a_new_goal_supersedes_the_one_before():
    robot = Robot()
    robot.add(segment(0, "mf(500);"), segment(1))
    robot.run(2)
    robot.executor.begin("urgent", robot.now_s)
    assert (robot.reports[-1].request_id, robot.reports[-1].reason) == ("goal", "superseded")
    robot.add(segment(0, "mr(100);"))
    robot.run(5)
    assert (robot.reports[-1].request_id, robot.reports[-1].status) == ("urgent", SUCCEEDED)
    assert robot.driver.state.pose.y_m == pytest.approx(-1)


def test_what_comes_of_another_goal_changes_nothing():
    robot = Robot()
    robot.add(segment(0, "mf(500);"))
    robot.run(2)
    robot.executor.begin("urgent", robot.now_s)
    assert not robot.executor.add("goal", segment(0, "mf(500);"), robot.now_s)
    assert not robot.executor.add("goal", segment(1, "mf(400);"), robot.now_s)
    assert not robot.executor.expect("goal", 0, robot.now_s)
    robot.run(3)
    assert robot.executor.state is ExecutorState.ACTIVE
    assert robot.executor.calls == ()
    robot.add(segment(0, "mr(100);"))
    robot.run(5)
    assert [done.call for done in robot.executor.calls] == [SkillCall("mr", (100.0,))]


class BrokenDriver:
    """A driver that can do everything but halt."""

    def __init__(self, driver):
        self._driver = driver

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def halt(self, now_s):
        raise OSError("the line is dead")


def test_a_driver_that_cannot_halt_ends_the_goal_all_the_same():
    robot = Robot(BrokenDriver(drone()))
    robot.add(segment(0, "mf(500);"), segment(1))
    robot.run(1)
    with pytest.raises(OSError, match="dead"):
        robot.executor.cancel(robot.now_s)
    assert robot.executor.state is ExecutorState.FAILED
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    with pytest.raises(RuntimeError):  # the stop skill cannot begin either
        robot.run(1)
    assert robot.events() == [(0, STARTED), (0, FAILED)]


def test_a_driver_that_cannot_halt_does_not_keep_a_goal_from_being_replaced():
    robot = Robot(BrokenDriver(drone()))
    robot.add(segment(0, "mf(500);"), segment(1))
    robot.run(1)
    with pytest.raises(OSError, match="dead"):
        robot.executor.begin("urgent", robot.now_s)
    assert robot.executor.request_id == "urgent"
    robot.run(3)
    assert robot.events() == [(0, STARTED), (0, FAILED)]  # nothing more of the old one


class RefusingDriver:
    """Fails the first calls of some skills."""

    def __init__(self, driver, **num_failures):
        self._driver, self.num_failures, self.started, self._is_refused = driver, num_failures, [], False

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def start(self, call, now_s):
        self.started.append((round(now_s, 2), call.name))
        self.num_failures[call.name] = self.num_failures.get(call.name, 0) - 1
        self._is_refused = self.num_failures[call.name] >= 0
        if not self._is_refused:
            self._driver.start(call, now_s)

    def tick(self, now_s):
        return SkillResult(SkillStatus.FAILED, reason="lost") if self._is_refused else self._driver.tick(now_s)


def refusing(**num_failures):
    robot = Robot(RefusingDriver(drone(), **num_failures))
    robot.unconfirmed = []
    robot.executor._on_unconfirmed = robot.unconfirmed.append
    return robot


def own_calls(robot):
    return [name for _, name in robot.driver.started if name in ("h", "ld")]


@pytest.mark.parametrize("num_failures", [1, 4])
def test_a_landing_of_silence_that_is_not_confirmed_is_repeated(num_failures):
    robot = refusing(ld=num_failures)
    robot.run(90)
    assert robot.driver.state.pose.z_m == 0
    assert own_calls(robot) == ["h", *["ld"] * (num_failures + 1)]
    assert robot.unconfirmed == ["ld: lost; it is tried again until it succeeds"] * num_failures
    assert robot.executor.own_failure == ""
    robot.run(60)
    assert len(own_calls(robot)) == num_failures + 2


def test_a_tello_whose_landing_is_lost_in_an_outage_lands_all_the_same():
    pilot = Pilot()
    executor = SegmentExecutor(pilot.driver.model, pilot.driver, [].append)

    def wait(until_s):
        while pilot.air.time_s < until_s:
            pilot.air.advance(0.05)
            executor.tick(pilot.air.time_s)
            pilot.driver.attend(pilot.air.time_s)

    wait(60)
    pilot.fail(Faults(lost=1.0))
    pilot.air.stream = pilot.air.commands
    while "land" not in pilot.texts:
        wait(pilot.air.time_s + 0.05)
    wait(pilot.air.time_s + 2.5)
    pilot.fail(Faults())
    pilot.air.stream = pilot.air.commands
    wait(pilot.air.time_s + 10)
    assert pilot.motions == ["land"] * 2
    assert pilot.flight.pose.z_m == 0


@pytest.mark.parametrize("end", ["life", "begin", "stop"])
def test_no_landing_is_repeated_once_the_planner_is_back_or_another_takes_over(end):
    robot = refusing(ld=1)
    robot.run(60.5)
    assert len(robot.unconfirmed) == 1
    if end == "life":
        robot.executor.receive(robot.now_s)
    elif end == "begin":
        robot.executor.begin("next", robot.now_s)
    else:
        robot.executor.stop(robot.now_s, "a person")
    robot.run(30)
    assert own_calls(robot).count("ld") == 1
    assert robot.driver.state.pose.z_m == 1


def test_a_hover_that_is_never_confirmed_does_not_delay_the_landing():
    robot = refusing(h=1000)
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0
    assert next(at_s for at_s, name in robot.driver.started if name == "ld") == pytest.approx(60, abs=0.1)


class EndlessHover(RefusingDriver):
    """Never ends the first hover."""

    is_endless = False

    def start(self, call, now_s):
        super().start(call, now_s)
        self.is_endless = [name for _, name in self.started] == ["h"]

    def halt(self, now_s):
        self.is_endless = False
        self._driver.halt(now_s)

    def tick(self, now_s):
        return SkillResult(SkillStatus.RUNNING) if self.is_endless else self._driver.tick(now_s)


def test_a_hover_that_never_ends_delays_the_landing_for_a_minute_at_most():
    robot = Robot(EndlessHover(drone()))
    robot.executor._on_unconfirmed = (unconfirmed := []).append
    robot.run(90)
    assert robot.driver.state.pose.z_m == 0
    assert unconfirmed[0] == "h: it has not ended after 60 s; it is tried again until it succeeds"
    assert next(at_s for at_s, name in robot.driver.started if name == "ld") < 70


def test_a_stop_that_is_not_confirmed_is_repeated_more_and_more_slowly_until_it_is():
    robot = refusing(h=5)
    robot.add(segment(0, "mf(500);"))
    robot.run(1)
    robot.executor.stop(robot.now_s, "a person", (SkillCall("h"), SkillCall("d", (0.5,))))
    assert robot.executor.is_unconfirmed
    assert robot.executor.is_acting  # the rest of the order
    stopped_s, stopped_m = robot.now_s, robot.driver.state.pose.x_m
    for _ in range(40):
        robot.run(1)
        robot.executor.receive(robot.now_s)
    hovers_s = [at_s - stopped_s for at_s, name in robot.driver.started if name == "h"]
    assert hovers_s == pytest.approx([0, 1, 3, 7, 15, 23], abs=0.4)
    assert not robot.executor.is_unconfirmed
    assert robot.driver.state.pose.x_m == stopped_m


@pytest.mark.parametrize("is_new_goal", [False, True])
def test_no_stop_is_repeated_into_a_segment(is_new_goal):
    robot = Robot(RefusingDriver(drone(), h=1), look=Situation)
    robot.add(segment(0, "a(unicorn);"))
    robot.run(1)
    assert robot.executor.is_unconfirmed
    if is_new_goal:
        robot.executor.begin("next", robot.now_s)
        robot.add(segment(0, "mf(300);"), segment(1, "tc(90);"))
    else:
        robot.add(make_replan(1), segment(2, "mf(300);"), segment(3, "tc(90);"))
    robot.run(9)
    calls = [name for _, name in robot.driver.started]
    assert calls == ["a", "h", "mf", "tc", *([] if is_new_goal else ["h"])]
    assert robot.reports[-1].status is SUCCEEDED
    assert not robot.executor.is_unconfirmed


class SlowRefusal(RefusingDriver):
    """Takes three seconds to fail."""

    def tick(self, now_s):
        is_over = not self._is_refused or now_s - self.started[-1][0] > 3.0
        return super().tick(now_s) if is_over else SkillResult(SkillStatus.RUNNING)


def test_a_stop_that_still_runs_when_a_goal_begins_is_not_repeated_into_it():
    robot = Robot(SlowRefusal(drone(), h=1))
    robot.executor.stop(robot.now_s, "enough")
    robot.run(1)
    robot.executor.begin("next", robot.now_s)
    robot.add(segment(0, "mf(100);"))
    robot.run(6)
    assert not robot.executor.is_unconfirmed
    assert [name for _, name in robot.driver.started] == ["h", "mf"]


@pytest.mark.parametrize("is_chat", [False, True])
def test_a_goal_that_moves_nothing_takes_over_no_stop_that_is_not_confirmed(is_chat):
    """The plan of the one that is no chat is only shown, or refused: none of it comes."""
    robot = refusing(h=3)
    robot.executor.stop(robot.now_s, "enough")
    robot.executor.begin("next", robot.now_s, is_chat=is_chat)
    if is_chat:
        robot.add(sentence(0, "It is a long story, and takes a while to tell."))
    robot.run(3.5)
    assert robot.executor.is_unconfirmed
    assert own_calls(robot) == ["h"] * 3
    robot.run(4)
    assert not robot.executor.is_unconfirmed
    assert own_calls(robot)[:4] == ["h"] * 4
    robot.executor.begin("third", robot.now_s)
    robot.add(segment(0, "mf(100);"))
    robot.run(3)
    assert robot.reports[-1].status is SUCCEEDED


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 8), st.integers(0, 10**6), st.floats(0, 0.7), st.floats(0, 0.7))
def test_every_segment_runs_exactly_once_over_a_bad_network(count, seed, loss, duplication):
    """Segments are lost, doubled and reordered; the robot asks again from the first one that is missing."""
    rng = random.Random(seed)
    robot, sent, on_the_way = Robot(), [segment(i, "d(0.3);") for i in range(count)], []

    def send(segments):
        copies = [s for s in segments for _ in range(2 if rng.random() < duplication else 1)]
        on_the_way.extend((robot.now_s + rng.uniform(0, 2), s) for s in copies if rng.random() >= loss)

    send(sent)
    robot.expect(count)
    for _ in range(400):
        robot.add(*(s for due_s, s in on_the_way if due_s <= robot.now_s))
        on_the_way[:] = [(due_s, s) for due_s, s in on_the_way if due_s > robot.now_s]
        robot.run(0.5, step_s=0.1)
        if robot.executor.state is ExecutorState.DONE:
            break
        if rng.random() < 0.3:
            send(sent[robot.executor.next_missing_index :])
    assert robot.executor.state is ExecutorState.DONE
    expected = [(i, status) for i in range(count) for status in (STARTED, SUCCEEDED)]
    assert robot.events() == expected


def sentence(index, text):
    return replace(segment(index, text), expected=reading_time(text))


def test_a_chat_is_read_sentence_by_sentence_while_the_body_holds_still():
    robot = Robot()
    robot.executor.begin("chat", 0.0, is_chat=True)
    before = robot.driver.state.pose
    robot.add(sentence(1, "Then it was night. "), sentence(0, "One day I flew; mf(300); "))
    robot.expect(2)
    robot.run(3)
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED), (1, STARTED), (1, SUCCEEDED)]
    assert [r.duration_s for r in robot.reports[1::2]] == pytest.approx([1.0, 0.8], abs=0.051)
    assert robot.executor.state is ExecutorState.DONE
    assert robot.executor.calls == ()
    assert robot.driver.state.pose == before


def test_a_chat_can_be_cancelled_while_it_is_read():
    robot = Robot()
    robot.executor.begin("chat", 0.0, is_chat=True)
    robot.add(sentence(0, "A long story."))
    robot.run(0.2)
    robot.executor.cancel(robot.now_s, "enough")
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    robot.executor.begin("plan", robot.now_s)
    robot.add(segment(0))
    robot.run(6)
    assert robot.events()[2:] == [(0, STARTED), (0, SUCCEEDED)]


def parts(*texts):
    return [segment(index, text) for index, text in enumerate(texts)]


def ends(robot):
    return [(r.index, r.status) for r in robot.reports if r.status is not STARTED]


def names(robot):
    return [executed.call.name for executed in robot.executor.calls]


def test_a_condition_is_evaluated_before_its_block_is_there():
    robot = Robot()
    robot.add(*parts("?iv(chair){"))
    robot.run(1)
    assert names(robot) == ["iv"]
    (report,) = [r for r in robot.reports if r.status is SUCCEEDED]
    assert (report.index, report.enters_block) == (0, True)
    robot.add(*parts("?iv(chair){", "tc(90);"))
    robot.run(4)
    robot.add(segment(2, "}"), segment(3, "tc(45);"))
    robot.expect(4)
    robot.run(4)
    assert names(robot) == ["iv", "tc", "tc"]
    assert ends(robot) == [(index, SUCCEEDED) for index in range(4)]
    assert not any(r.enters_block for r in robot.reports if r.index)
    assert robot.executor.state is ExecutorState.DONE


def test_the_block_of_a_condition_that_is_false_is_skipped_with_all_blocks_in_it():
    robot = Robot()
    robot.add(*parts("?iv(cat){", "tc(90);", "?iv(chair){", "mf(100);", "}", "->True;", "}", "tc(45);", "->False;"))
    robot.expect(9)
    robot.run(5)
    assert names(robot) == ["iv", "tc"]
    assert robot.executor.calls[1].call == SkillCall("tc", (45.0,))
    skipped = [(index, SKIPPED) for index in range(1, 7)]
    assert ends(robot) == [(0, SUCCEEDED), *skipped, (7, SUCCEEDED), (8, SUCCEEDED)]
    assert robot.reports[-1].value is False


def test_a_return_in_a_block_ends_the_plan():
    robot = Robot()
    robot.add(*parts("?iv(chair){", "->True;", "tc(90);", "}", "?iv(chair){", "tc(45);", "}", "mf(100);"))
    robot.expect(8)
    robot.run(5)
    assert names(robot) == ["iv"]
    assert robot.executor.state is ExecutorState.DONE


@pytest.mark.parametrize(
    "texts", [("?iv(chair){",), ("?iv(chair){", "tc(90);"), ("?iv(cat){",), ("?iv(cat){", "mf(50);")]
)
def test_no_robot_waits_in_an_open_block_for_longer_than_its_silence_rule(texts):
    """The condition is false for the cat: then it waits for the end of what it skips."""
    robot = Robot()
    robot.add(*parts(*texts))
    robot.run(8)
    begun = robot.driver._num_calls.get("h", 0)
    assert begun == 1, "it hovers 5 s after the last that came, or that it did"
    robot.run(70)
    assert robot.driver.state.pose.z_m == 0
    assert robot.driver._num_calls["ld"] == 1


@pytest.mark.parametrize("name", ["chair", "cat"])
def test_a_partial_plan_that_ends_in_an_open_block_ends_there(name):
    robot = Robot()
    robot.add(*parts(f"?iv({name}){{", "tc(90);"))
    robot.expect(2, is_partial=True)
    robot.run(5)
    assert robot.executor.state is ExecutorState.DONE
    assert names(robot) == (["iv", "tc"] if name == "chair" else ["iv"])
    assert robot.driver._num_calls["h"] == 1


def test_a_block_that_fails_is_left_for_the_new_plan():
    robot = Robot(look=Situation)
    robot.add(*parts("?iv(chair){", "a(unicorn);", "mf(100);", "}", "mf(110);"), make_replan(5), segment(6, "tc(90);"))
    robot.expect(7)
    robot.run(8)
    assert names(robot) == ["iv", "a", "tc"]
    assert ends(robot) == [(0, SUCCEEDED), (1, FAILED), (6, SUCCEEDED)]
    assert robot.executor.state is ExecutorState.DONE


def test_a_condition_that_fails_fails_its_goal():
    robot = Robot()
    robot.add(*parts("?od(unicorn)>3{", "mf(100);", "}"))
    robot.run(3)
    assert ends(robot) == [(0, FAILED)]
    assert robot.executor.state is ExecutorState.FAILED


@pytest.mark.parametrize("end", ["cancel", "reflex", "stop", "begin"])
def test_the_next_goal_is_in_no_block(end):
    robot = Robot()
    robot.add(*parts("?iv(cat){"))
    robot.run(1)
    if end == "stop":
        robot.executor.stop(robot.now_s, "stopped")
    elif end != "begin":
        getattr(robot.executor, end)(robot.now_s)
    robot.executor.begin("next", robot.now_s)
    robot.add(segment(0, "tc(90);"))
    robot.run(4)
    assert robot.reports[-1].request_id == "next"
    assert robot.reports[-1].status is SUCCEEDED


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("?iv(chair){", BlockEdge.NONE),
        ("mf(100);", BlockEdge.OPENS),
        ("?iv(chair){mf(100);}", BlockEdge.OPENS),
        ("?iv(chair){mf(100);", BlockEdge.OPENS),
        ("mf(100);?iv(chair){", BlockEdge.OPENS),
        ("2{", BlockEdge.OPENS),
        ("?iv(chair){?iv(chair){}", BlockEdge.OPENS),
        ("}", BlockEdge.NONE),
        ("}", BlockEdge.CLOSES),
        ("mf(100);", BlockEdge.CLOSES),
    ],
)
def test_an_edge_that_its_text_does_not_have_is_not_executed(text, edge):
    robot = Robot()
    robot.add(segment(0, text, edge), segment(1, "mf(100);"))
    robot.run(3)
    assert names(robot) == []
    assert ends(robot) == [(0, FAILED)]


def test_a_closing_with_another_text_is_not_executed_either():
    robot = Robot()
    robot.add(segment(0, "?iv(chair){"), segment(1, "mf(100);", BlockEdge.CLOSES))
    robot.run(3)
    assert names(robot) == ["iv"]
    assert ends(robot) == [(0, SUCCEEDED), (1, FAILED)]


class Hanging:
    """A driver whose motions never end."""

    def __init__(self):
        self.model, self.log, self._call = LIBRARY.get("tello"), [], None

    def start(self, call, now_s):
        self._call = call
        self.log.append((round(now_s), call.name))

    def tick(self, _now_s):
        is_moving = self._call is not None and self._call.name == "mf"
        return SkillResult(SkillStatus.RUNNING if is_moving else SkillStatus.SUCCEEDED)

    def halt(self, now_s):
        self._call = None
        self.log.append((round(now_s), "halt"))


@pytest.mark.parametrize("expected_s", [0.0, 100.0])
@pytest.mark.parametrize("looks", [True, False])
def test_a_call_that_never_ends_keeps_no_robot_from_what_it_does_without_a_planner(expected_s, looks):
    robot = Robot(Hanging(), Situation if looks else None)
    expected = ExpectedDuration(min_s=0.0, p50_s=expected_s, p90_s=expected_s)
    robot.add(replace(segment(0, "mf(100);"), expected=expected))
    longest_s = max(expected_s, expected_duration(robot.driver.model, SkillCall("mf", (100.0,))).p90_s)
    robot.run(longest_s + 29.0)
    assert robot.driver.log == [(0, "mf")]  # it is only late
    robot.run(2.0)
    assert robot.events() == [(0, STARTED), (0, FAILED)]
    assert robot.reports[1].reason == f"mf: it has not ended after {longest_s + 30.0:.0f} s"
    assert [name for _, name in robot.driver.log] == ["mf", "halt", "h"]
    robot.run(70.0, step_s=0.5)
    assert [name for _, name in robot.driver.log] == ["mf", "halt", "h", "h", "ld"]


@pytest.mark.parametrize("pace", [1.0, 3.0])
def test_a_call_that_never_ends_is_not_given_the_time_of_its_whole_loop(pace):
    robot = Robot(Hanging())
    text = "100{mf(100);d(60);}"
    model = robot.driver.model
    p90_s = pace * expected_duration(model, parse(text)).p90_s
    robot.add(replace(segment(0, text), expected=ExpectedDuration(min_s=0.0, p50_s=p90_s, p90_s=p90_s)))
    longest_s = pace * expected_duration(model, SkillCall("mf", (100.0,))).p90_s
    robot.run(longest_s + 29.0)
    assert robot.driver.log == [(0, "mf")]
    robot.run(2.0)
    assert [name for _, name in robot.driver.log] == ["mf", "halt", "h"]
