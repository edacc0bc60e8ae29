"""Which robots of a fleet are real."""

import pytest

from llm_planner.ros.composition import Composition, World

pytestmark = pytest.mark.ros


def test_the_first_drones_fly_the_tellos_and_the_rest_is_kinematic():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",)).commands()
    assert {"driver:=tello", "address:=127.0.0.11", "take_off:=true"} <= set(commands["drone_1"])
    assert not any("driver" in word for name in ("drone_2", "arm_1") for word in commands[name])


def test_an_arm_never_flies():
    commands = Composition(drones=1, arms=1, tellos=("127.0.0.11", "127.0.0.12")).commands()
    assert not any("driver" in word for word in commands["arm_1"])


def test_who_is_no_real_robot_has_a_body_in_the_world():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",), world=World("house", 8871)).commands()
    assert {"robots:=['drone_2:tello','arm_1:indy7']", "world:='house'", "port:=8871"} <= set(commands["world"])
    assert {"driver:=mujoco", "address:=127.0.0.1:8871"} <= set(commands["arm_1"])
    assert "driver:=tello" in commands["drone_1"]
    assert "world" not in Composition(drones=2).commands()
