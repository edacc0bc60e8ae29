# SPDX-License-Identifier: Apache-2.0
"""Our worlds in Gazebo's own physics library: nothing falls through a table, joints hold and follow, boxes are stacked.

ignition-physics 5 with DART, of Gazebo Fortress, as Debian 12 has it; the laws of the systems stand in
``step_world.cpp``. Gazebo itself is not run.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.robots.executor import ExecutorState
from llm_planner.sim.gazebo.files import write_world
from llm_planner.sim.gazebo.world import homes
from tests.sim.gazebo.bodies import STEP_S
from tests.sim.gazebo.programs import compiled, environment, libraries
from tests.sim.gazebo.stage import HOME, TABLE, Stage
from tests.sim.gazebo.test_drone_port import TELLO, Body, fly

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PLUGIN = "libignition-physics5-dartsim-plugin.so.5"
PACKAGES = "libsdformat-dev libignition-physics-sdf-dev libignition-physics5-dartsim-plugin5 libeigen3-dev"
AT_REST_M = 0.003


class GazeboPhysics:
    """One arm, one drone and the table world; to a ``Stage`` the same as ``bodies.GazeboArm``."""

    def __init__(self, program: Path, world: Path) -> None:
        self.home, self.news, self.places = HOME, [], {}
        self.time_s, self.joints = 0.0, np.zeros(6)
        self.loose = [thing.known.name for thing in TABLE.things if thing.is_loose]
        command = [str(program), str(libraries() / PLUGIN), str(world)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())

    def take_trajectory(self, points) -> None:
        numbers = [(point.after_s, *point.positions, *point.velocities) for point in points]
        self._say("trajectory arm_1", *(number for point in numbers for number in point))

    def take_order(self, name: str, attach: bool) -> None:
        self._say(f"{'attach' if attach else 'detach'} arm_1/{name}")

    def step(self, seconds: float = STEP_S) -> None:
        self._say("step", seconds)
        while (words := self._process.stdout.readline().split()) != ["done"]:
            assert words, "the physics have died"
            kind, name, *values = words
            if kind == "time":
                self.time_s = float(name)
            elif kind == "joints":
                self.joints = np.array(values, dtype=float)
            elif kind == "place":
                self.places[name] = np.array(values, dtype=float)
            else:
                self.news.append((name.removeprefix("arm_1/"), values == ["attached"]))

    def position_m(self, name: str):
        return tuple(self.places[name][:3])

    def yaw(self, name: str) -> float:
        return float(self.places[name][3])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10.0)

    def _say(self, *words: object) -> None:
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()


class FlyingBody(Body):
    """The drone of a ``GazeboPhysics``."""

    def __init__(self, gazebo: GazeboPhysics) -> None:
        gazebo.step()
        self.gazebo = gazebo
        super().__init__(homes({"drone_1": TELLO}, TABLE)["drone_1"])

    def step(self) -> None:
        v = self.velocity
        self.gazebo._say("velocity drone_1", v.forward, v.left, v.up, v.turn)
        self.gazebo.step()
        self.clock.advance(STEP_S)
        self.position, self.yaw = self.gazebo.places["drone_1"][:3], self.gazebo.yaw("drone_1")
        self.port.note_odometry(self.position, self.yaw)
        self.port.tick()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (libraries() / PLUGIN).exists():
        pytest.skip(f"ignition-physics is not installed (Debian: {PACKAGES})")
    names = ("ignition-physics5", "ignition-plugin1", "ignition-plugin1-loader")
    return compiled("step_world.cpp", tmp_path_factory.mktemp("physics"), *names)


@pytest.fixture
def gazebo(program: Path, tmp_path: Path):
    world, _ = write_world(tmp_path, "table", drones=1, arms=1)
    gazebo = GazeboPhysics(program, world)
    yield gazebo
    gazebo.close()


def test_things_lie_where_the_file_has_them_and_the_arm_stands(gazebo):
    for name in gazebo.loose:
        gazebo.take_order(name, False)
    gazebo.step(1.0)
    for thing in TABLE.things:
        if thing.is_loose:
            assert np.linalg.norm(gazebo.places[thing.known.name][:3] - thing.known.position_m) < AT_REST_M
    assert abs(gazebo.joints).max() < 5e-3
    assert gazebo.position_m("drone_1")[:2] == pytest.approx((-2.0, 2.0), abs=1e-3)


def test_a_house_and_a_second_arm_stand_too(program, tmp_path):
    for name, drones, arms in (("house", 2, 1), ("table", 1, 2)):
        world, _ = write_world(tmp_path, name, drones=drones, arms=arms)
        gazebo = GazeboPhysics(program, world)
        gazebo.step(0.5)
        assert abs(gazebo.joints).max() < 0.02
        assert gazebo.places["drone_1"][2] == pytest.approx(0.053, abs=0.005)
        lowest = min(place[2] for thing, place in gazebo.places.items() if not thing.startswith("drone"))
        assert lowest > (0.23 if name == "house" else 0.75)  # the backpack on its floor, all else on the table
        gazebo.close()


def test_boxes_are_stacked_and_put_into_a_container(gazebo):
    stage = Stage(gazebo)
    for _ in range(50):  # all is let go, and comes to rest
        stage.step()
    executor = stage.run("pick(red_box);place(red_box,blue_box);", "pick(lemon);place(lemon,bin);home();")
    assert executor.state is ExecutorState.DONE, stage.reports
    red, blue = np.array(stage.own("red_box")), np.array(stage.own("blue_box"))
    assert red - blue == pytest.approx([0.0, 0.0, 0.05], abs=0.005)
    assert stage.driver.world.objects["red_box"].support == "blue_box"
    assert np.linalg.norm(np.array(stage.own("lemon"))[:2] - np.array(stage.own("bin"))[:2]) < 0.07
    assert stage.driver.state.held is None


def test_joints_follow_a_motion_and_hold_what_weighs(gazebo):
    stage = Stage(gazebo)
    worst = []

    def watch(stage):
        worst.append(stage.port._gap_m())

    assert stage.run("home();").state is ExecutorState.DONE, stage.reports
    executor = stage.run("pick(bin);", at=watch)
    assert executor.state is ExecutorState.DONE, stage.reports
    assert stage.driver.state.held == "bin"
    assert max(worst) < 0.02


def test_a_drone_flies_turns_and_lands_on_the_floor(gazebo):
    body = FlyingBody(gazebo)
    executor, driver, reports = fly(body, "mf(100);tc(90);mf(50);", "ld();")
    assert executor.state is ExecutorState.DONE, reports
    pose = driver.state.pose
    assert (pose.x_m, pose.y_m, pose.z_m) == pytest.approx((1.0, -0.5, 0.0), abs=0.1)
    body.run(1.0)
    assert 0.0 < body.position[2] < 0.08
