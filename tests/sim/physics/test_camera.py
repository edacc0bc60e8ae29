# SPDX-License-Identifier: Apache-2.0
"""Pictures without a window: of the scene, and what a drone's camera sees."""

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.sim.physics.camera import drone_picture, render
from llm_planner.sim.physics.mujoco_loader import load_mujoco
from tests.sim.physics.builders import cube, drone, run


@pytest.fixture
def renderer():
    mujoco = load_mujoco()
    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
    except Exception as error:  # noqa: BLE001 (whatever the graphics library raises)
        pytest.skip(f"this machine cannot render: {error}")


def test_what_is_before_the_drone_is_in_its_picture(renderer):
    driver, world = drone(cube("red_box", x=1.0))
    picture = drone_picture(world, "drone_1", driver.model.body, 60.0).astype(int)
    assert picture.shape == (720, 960, 3)
    red = picture[:, :, 0] - picture[:, :, 2] > 60
    rows, columns = np.nonzero(red)
    assert abs(columns.mean() - 480) < 20
    assert abs(rows.mean() - 360) < 20
    run(driver, "tc(90);")
    away = drone_picture(world, "drone_1", driver.model.body, 60.0).astype(int)
    assert not (away[:, :, 0] - away[:, :, 2] > 60).any()


def test_a_scene_is_drawn_in_the_size_asked_for(renderer):
    _, world = drone()
    picture = render(world, at_m=(0, 0, 1), distance_m=2, azimuth_deg=30, elevation_deg=-30, size=(320, 200))
    assert picture.shape == (200, 320, 3)
    assert picture.std() > 1


def test_taking_a_picture_writes_it_where_the_world_keeps_pictures(renderer, tmp_path):
    driver, world = drone()
    run(driver, "tp();")
    world.pictures = tmp_path / "pictures"
    run(driver, "tp();")
    (path,) = world.pictures.iterdir()
    assert path.name.startswith("drone_1_")
    assert path.stat().st_size > 1000
    assert len(driver.state.pictures) == 2


def test_without_a_renderer_the_skill_fails_and_says_what_to_install(tmp_path, monkeypatch):
    driver, world = drone()
    world.pictures = tmp_path

    def fail(*_):
        raise RuntimeError("no EGL here")

    monkeypatch.setattr(world.scene.mujoco, "Renderer", fail)
    _, reports, _ = run(driver, "tp();")
    assert "cannot render without a display (no EGL here)" in reports[-1].reason
    with pytest.raises(PlannerError) as caught:
        render(world, at_m=(0, 0, 1), distance_m=2, azimuth_deg=0, elevation_deg=0)
    assert caught.value.code is ErrorCode.ENGINE_FAILED
    assert world.drones["drone_1"].is_armed
