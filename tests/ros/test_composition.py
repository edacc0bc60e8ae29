"""Which robots of a fleet are real."""

import pytest

from llm_planner.monitoring.robot_view import parse_home
from llm_planner.physics.world_file import load_world_file
from llm_planner.ros.composition import ONLOOKERS, Composition, World

pytestmark = pytest.mark.ros


def test_the_first_drones_fly_the_tellos_and_the_rest_is_kinematic():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",)).commands()
    assert {"driver:=tello", "address:=127.0.0.11", "take_off:=true"} <= set(commands["drone_1"])
    assert not any("driver" in word for name in ("drone_2", "arm_1") for word in commands[name])


def test_only_an_emulated_drone_takes_worlds():
    commands = Composition(drones=3, tellos=("127.0.0.11", "192.168.10.1", "tello.local")).commands()
    allowed = {name for name, words in commands.items() if "allow_world:=true" in words}
    assert allowed == {"drone_1"}


def test_an_arm_never_flies():
    commands = Composition(drones=1, arms=1, tellos=("127.0.0.11", "127.0.0.12")).commands()
    assert not any("driver" in word for word in commands["arm_1"])


def test_who_is_no_real_robot_has_a_body_in_the_world():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",), world=World("house", 8871)).commands()
    assert {"robots:=['drone_2:tello','arm_1:indy7']", "world:='house'", "port:=8871"} <= set(commands["world"])
    assert {"driver:=mujoco", "address:=127.0.0.1:8871"} <= set(commands["arm_1"])
    assert "driver:=tello" in commands["drone_1"]
    assert "world" not in Composition(drones=2).commands()


def homes(fleet):
    return {n: w.partition(":=")[2] for n, words in fleet.commands().items() for w in words if w.startswith("home:=")}


def test_who_lives_in_a_world_with_places_knows_its_home():
    pytest.importorskip("mujoco")
    fleet = Composition(drones=3, arms=1, tellos=("127.0.0.11",), world=World("house", 8871))
    places = load_world_file("house")
    expected = {"drone_2": places.drones[0], "drone_3": places.drones[1], "arm_1": places.arms[0]}
    assert homes(fleet) == {name: f"{p.x_m},{p.y_m},{p.yaw_deg}" for name, p in expected.items()}
    assert all(parse_home(text) is not None for text in homes(fleet).values())
    assert not homes(Composition(drones=2, world=World("", 8871)))
    assert not homes(Composition(drones=2))


def test_onlookers_are_processes_of_their_own(tmp_path):
    commands = Composition(drones=1, arms=0, dashboard_port=8479, record=tmp_path / "run.mcap").commands()
    assert "port:=8479" in commands["dashboard"]
    assert f"path:={tmp_path / 'run.mcap'}" in commands["recorder"]
    assert commands.keys() - ONLOOKERS == {"planner", "drone_1"}
