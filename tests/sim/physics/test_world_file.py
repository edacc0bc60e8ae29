# SPDX-License-Identifier: Apache-2.0
"""Worlds as data: the bundled ones hold their robots, and what is wrong with one is said."""

import math

import pytest
import yaml

pytest.importorskip("mujoco")

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.robots.executor import ExecutorState
from llm_planner.robots.world import World
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.things import Walk
from llm_planner.sim.physics.world_file import load_world_file, world_names
from tests.sim.physics.builders import LIBRARY, run

TELLO, INDY7 = LIBRARY.get("tello"), LIBRARY.get("indy7")


def fleet(drones, arms):
    return {f"drone_{n}": TELLO for n in range(drones)} | {f"arm_{n}": INDY7 for n in range(arms)}


@pytest.mark.parametrize("name", world_names())
def test_every_place_of_a_bundled_world_is_free(name):
    world_file = load_world_file(name)
    world = build_fleet(fleet(len(world_file.drones), len(world_file.arms)), world_file)
    world.advance(1.0)
    assert not world.collisions
    with pytest.raises(PlannerError, match="has places for"):
        build_fleet(fleet(0, len(world_file.arms) + 1), world_file)


def test_what_lies_loose_stays_where_it_lies():
    world = build_fleet(fleet(0, 1), load_world_file("table"))
    world.advance(2.0)
    for thing in world.scene.things.values():
        if thing.is_loose:
            assert math.dist(world.scene.data.body(thing.body).xpos, thing.known.position_m) < 0.01, thing.body


def test_who_walks_about_goes_to_and_fro():
    walk = Walk(((0.0, 0.0, 1.0), (2.0, 0.0, 1.0), (2.0, 1.0, 1.0)), 1.0, 1.0, is_repeated=True)
    at = [tuple(round(float(x), 6) for x in walk.at(t)[0]) for t in (0.0, 1.0, 2.0, 3.5, 4.0, 5.0, 7.0)]
    assert at == [(0, 0, 1), (0, 0, 1), (1, 0, 1), (2, 0.5, 1), (2, 1, 1), (2, 0, 1), (0, 0, 1)]
    assert walk.at(0.5)[1].tolist() == [0, 0, 0]
    once = Walk(walk.corners, 1.0)
    assert once.at(99.0)[0].tolist() == [2.0, 1.0, 1.0]
    assert once.at(99.0)[1].tolist() == [0, 0, 0]


def test_an_arm_grasps_what_the_world_file_put_there():
    world = build_fleet({"arm_1": INDY7}, load_world_file("table"))
    driver = PhysicsConnection(INDY7, LocalPort(world, "arm_1", INDY7)).enter(World(), None, 0.0)
    executor, reports, _ = run(driver, "pick(red_box);place(red_box,blue_box);pick(lemon);place(lemon,bin);")
    assert executor.state is ExecutorState.DONE, reports
    assert driver.world.objects["red_box"].support == "blue_box"
    assert driver.world.objects["lemon"].support == "bin"


def broken(tmp_path, change):
    document = yaml.safe_load((share_dir() / "worlds" / "table.yaml").read_text())
    change(document)
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["bodies"][3].update(at_m=[0.5, 0.13, 0.775]), "red_box and blue_box overlap by"),
        (lambda d: d["bodies"].append(dict(d["bodies"][0], name="bin")), "given twice: bin"),
        (lambda d: d["bodies"][3].update(size_m=[0.05, 0.05, float("nan")]), "bodies.3.size_m"),
        (lambda d: d["bodies"][3].update(size_m=[0.05, -0.05, 0.05]), "sizes must be > 0"),
        (
            lambda d: d["bodies"][3].update(sise_m=[1, 1, 1]),
            "bodies.3.sise_m: there is no such key; did you mean size_m?",
        ),
        (lambda d: d["walkers"][0].update(corners_m=[[0, 0, 0]]), "needs two points"),
        (lambda d: d["arms"].insert(0, {"x_m": 1.6, "y_m": -4.0, "z_m": 0.75}), "overlap"),
        (lambda d: d["bodies"][3].update(colour=[5, -2, 9]), "colour must be three numbers in [0, 1]"),
        (lambda d: d.pop("name"), "name"),
    ],
)
def test_what_is_wrong_with_a_world_is_said(tmp_path, change, reason):
    with pytest.raises(PlannerError) as caught:
        build_fleet(fleet(0, 1), load_world_file(broken(tmp_path, change)))
    assert caught.value.code is (ErrorCode.INVALID_WORLD if "overlap" in reason else ErrorCode.INVALID_FILE)
    assert reason in caught.value.message


def test_an_unknown_world_names_the_known_ones(tmp_path):
    with pytest.raises(PlannerError, match="known are house, table"):
        load_world_file("palace")
    (tmp_path / "x.yaml").write_text("[1, 2")
    with pytest.raises(PlannerError, match=r"x\.yaml cannot be read as YAML: line 1, column 6: ") as broken:
        load_world_file(str(tmp_path / "x.yaml"))
    with pytest.raises(PlannerError, match=r"y\.yaml cannot be read: No such file") as missing:
        load_world_file(str(tmp_path / "y.yaml"))
    assert broken.value.code is missing.value.code is ErrorCode.INVALID_FILE
