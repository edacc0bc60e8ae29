# SPDX-License-Identifier: Apache-2.0
"""A robot in virtual time: what it remembers is bounded, and what its goal's snapshot needs is remembered."""

import collections
import gc
import itertools
import random
import types
from unittest.mock import Mock

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.clock import ManualClock
from llm_planner.core.segment import ReportStatus
from llm_planner.robot_connection import Indy7Robot, KinematicConnection
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.robot_control import RobotControl
from llm_planner.ros.snapshot import Snapshot
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.world import PhysicsWorld
from tests.robots.drivers.test_indy7 import FakePort
from tests.robots.drivers.virtual import Pilot
from tests.ros.nodes import make_segment
from tests.sim.physics.builders import cube

pytestmark = pytest.mark.ros
TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
CONTAINERS = (list, dict, set, frozenset, tuple, collections.deque)
NO_DATA = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


def num_remembered(root):
    """Returns how many entries all containers have that can be reached from an object."""
    seen, left, total = set(), [root], 0
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, NO_DATA):
            continue
        seen.add(id(thing))
        total += len(thing) if isinstance(thing, CONTAINERS) else 0
        left += gc.get_referents(thing)
    return total


class Robot:
    """A robot control that is ticked as its loop would, in virtual time."""

    def __init__(self, model, connection, clock=None, advance=None):
        self.clock = clock or ManualClock()
        self._advance = advance or self.clock.advance
        self.reports, self.reflexes = [], []
        self.control = RobotControl(
            model,
            clock=self.clock,
            time_scale=1.0,
            connection=connection,
            report=self.reports.append,
            on_reflex=self.reflexes.append,
        )
        self._numbers = itertools.count()

    def run(self, seconds, period_s=0.05):
        for _ in range(round(seconds / period_s)):
            self._advance(period_s)
            self.control.tick()
        self.reports.clear()

    def carry_out(self, *texts, seconds):
        goal_id = f"goal {next(self._numbers)}"
        self.control.begin(goal_id)
        for index, text in enumerate(texts):
            self.control.add(goal_id, make_segment(index, text))
        self.control.complete(goal_id, len(texts))
        self.run(seconds)
        assert not self.control.is_active
        return self.control.snapshot()


class VirtualTello:
    """An emulated Tello behind a connection, in virtual time."""

    takes_worlds = True
    unsupported_skills = frozenset()

    def __init__(self):
        self.pilot = Pilot()

    def enter(self, world, pose, epoch_s):
        self.pilot.driver.enter(world, pose, self.pilot.air.time_s)
        return self.pilot.driver

    def advance(self, seconds):
        self.pilot.air.advance(seconds)
        self.pilot.air.sent.clear()  # which the test's air keeps, not the robot

    def close(self):
        pass


class DriftingPort(FakePort):
    """An arm whose joints are never quite still."""

    def __init__(self):
        super().__init__()
        self._rng = random.Random(0)

    def joints_deg(self):
        first, *others = super().joints_deg()
        return (first + self._rng.uniform(-0.01, 0.01), *others)


def kinematic():
    return Robot(TELLO, KinematicConnection(TELLO, 0))


def physical():
    world = PhysicsWorld(wind_m_per_s=0.3, seed=1)
    world.add_robot("drone_1", TELLO, Home())
    return Robot(TELLO, PhysicsConnection(TELLO, LocalPort(world, "drone_1", TELLO)))


def emulated():
    connection = VirtualTello()
    return Robot(TELLO, connection, connection.pilot.air, connection.advance)


def arm():
    return Robot(INDY7, Indy7Robot(INDY7, DriftingPort(), tool_length_m=0.0, takes_worlds=True))


ROBOTS = {"kinematic": kinematic, "physical": physical, "emulated": emulated, "arm": arm}
SAYS = {"arm": ["say('hello');", "home();", "say('done');"]}


@pytest.mark.parametrize("kind", ROBOTS)
def test_a_robot_that_hovers_does_not_remember_more_and_more(kind):
    robot = ROBOTS[kind]()
    robot.run(70.0 if kind == "emulated" else 10.0)  # a Tello's minute of states
    before = num_remembered(robot.control)
    robot.run(60.0 if kind != "physical" else 30.0)
    assert num_remembered(robot.control) <= before + 30


@pytest.mark.parametrize("kind", ROBOTS)
def test_many_goals_are_not_remembered(kind):
    robot = ROBOTS[kind]()
    texts = SAYS.get(kind, ["l('hello');", "mf(30);", "mb(30);", "l('done');"])
    robot.run(60.0 if kind == "emulated" else 1.0)
    robot.carry_out(*texts, seconds=15.0)
    before = num_remembered(robot.control)
    for _ in range(2 if kind == "physical" else 20):
        robot.carry_out(*texts, seconds=15.0)
    assert num_remembered(robot.control) <= before + 30
    assert len(robot.control.snapshot().said) == 2


@pytest.mark.parametrize("kind", ["kinematic", "physical", "emulated"])
def test_the_waypoints_of_a_long_goal_are_remembered(kind):
    robot = ROBOTS[kind]()
    snapshot = robot.carry_out("mf(50);", "d(5);", "ml(50);", "d(5);", seconds=30.0)
    assert [call.call.name for call in snapshot.calls] == ["mf", "d", "ml", "d"]
    tolerance = pytest.approx if kind != "physical" else lambda value: pytest.approx(value, abs=0.15)
    assert [pose.x_m for pose in snapshot.waypoints] == tolerance([0.0, 0.5, 0.5, 0.5, 0.5])
    assert [pose.y_m for pose in snapshot.waypoints] == tolerance([0.0, 0.0, 0.0, 0.5, 0.5])


def test_a_snapshot_has_what_was_said_and_photographed_for_its_goal_only():
    robot = kinematic()
    assert robot.carry_out("l('one');", "tp();", seconds=10.0).said == ("one",)
    snapshot = robot.carry_out("l('two');", seconds=10.0)
    assert (snapshot.said, snapshot.pictures) == (("two",), ())


def test_a_robot_that_touches_something_again_and_again_remembers_its_last_collisions():
    world = PhysicsWorld(wind_m_per_s=0.0)
    world.add_robot("drone_1", TELLO, Home())
    port = LocalPort(world, "drone_1", TELLO)
    port.enter((cube("wall", x=2.0),), TELLO.start)
    for number in range(30_000):
        world._touched_s.clear()
        world._notice("drone_1", 0, 100.0 + number)
        if number % 1000 == 0:
            assert set(port.read(0.0).collisions) == {"floor"}
    assert len(world.collisions) <= 10_000
    assert port.read(0.0).collisions == ("floor",) * 999
    for number in range(30_000):
        world._touched_s["drone_1", f"thing {number}"] = 0.0
    world._notice("drone_1", 0, 1e9)
    assert len(world._touched_s) == 1


def test_a_goal_begins_only_once_a_halt_has_worked(monkeypatch):
    robot = Robot(TELLO, KinematicConnection(TELLO, 0))
    robot.control.begin("first")
    robot.control.add("first", make_segment(0, "mf(500);"))
    robot.run(0.5)
    with monkeypatch.context() as broken:
        broken.setattr(robot.control._driver, "halt", lambda _: (_ for _ in ()).throw(OSError("no way to the robot")))
        for act in (lambda: robot.control.stop("a person says so"), lambda: robot.control.begin("second")):
            with pytest.raises(OSError, match="no way"):
                act()
        assert robot.control.goal_id == "first"
    robot.control.begin("second")
    robot.run(1.0)
    assert robot.control.is_active
    assert robot.control.goal_id == "second"


def test_a_world_that_cannot_be_entered_changes_nothing(monkeypatch):
    robot = kinematic()
    robot.control.begin("goal")
    robot.control.add("goal", make_segment(0, "mf(300);"))
    robot.control.complete("goal", 1)
    robot.run(2.0)
    before = robot.control.pose
    with monkeypatch.context() as broken:
        broken.setattr(robot.control._connection, "enter", Mock(side_effect=OSError("no way to the robot")))
        with pytest.raises(OSError, match="no way"):
            robot.control.enter(Snapshot(objects=()))
    assert robot.control.pose == before
    assert before.x_m > 0.5
    robot.run(5.0)
    assert (robot.control.is_active, robot.control.pose.x_m) == (False, pytest.approx(3.0))


def test_what_a_new_world_ends_is_told():
    robot = kinematic()
    robot.control._on_stop = (stops := []).append
    robot.control.begin("goal")
    robot.control.add("goal", make_segment(0, "mf(300);"))
    robot.run(2.0)
    robot.control.enter(Snapshot(objects=()))
    (report,) = robot.reports
    assert (report.request_id, report.status, report.reason) == ("goal", ReportStatus.FAILED, "superseded")
    assert report.duration_s == pytest.approx(2.0, abs=0.1)
    robot.control.begin("emergency")
    robot.control.refuse("emergency", "no answer")
    robot.control.enter(Snapshot(objects=()))
    assert [event.is_over for event in robot.reflexes] == [False, True]
    assert stops == []
    robot.control.stop("enough")
    robot.control.enter(Snapshot(objects=()))
    assert stops == [""]
