# SPDX-License-Identifier: Apache-2.0
"""Pictures of a world, without a window: by EGL (a GPU or Mesa's software renderer) or by OSMesa."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.extras import load_extra
from llm_planner.robots.shape import QuadrotorBody
from llm_planner.sim.physics.world import PhysicsWorld

Picture = NDArray[np.uint8]
WIDTH, HEIGHT = 960, 720  # published: the Tello's video
_BACK_M = 0.02  # the camera is this far in front of its mount, outside of the body
MOST_DEG = 120.0  # a wider view than that is no picture any more


def render(
    world: PhysicsWorld,
    *,
    at_m: tuple[float, float, float],
    distance_m: float,
    azimuth_deg: float,
    elevation_deg: float,
    size: tuple[int, int] = (1280, 720),
    field_of_view_deg: float = 45.0,
) -> Picture:
    """Returns a picture of the scene, shape (height, width, 3).

    Args:
        world: To look at.
        at_m: The point in the middle of the picture.
        distance_m: Of the camera from it.
        azimuth_deg: Heading in which the camera looks, from the x axis.
        elevation_deg: Negative for looking down.
        size: Width and height in pixels, at most 1920 x 1080.
        field_of_view_deg: Vertical.

    Raises:
        PlannerError: ENGINE_FAILED where no renderer exists.
    """
    mujoco = world.scene.mujoco
    camera = mujoco.MjvCamera()
    camera.lookat[:] = at_m
    camera.distance, camera.azimuth, camera.elevation = distance_m, azimuth_deg, elevation_deg
    return _draw(world, camera, size, field_of_view_deg)


def drone_picture(world: PhysicsWorld, name: str, shape: QuadrotorBody, field_of_view_deg: float) -> Picture:
    """Returns what a drone's camera sees now.

    Args:
        world: Where it flies.
        name: Of the drone.
        shape: Of its body.
        field_of_view_deg: Vertical, at most 120: the robot model's own is wider, for perception by geometry.

    Raises:
        PlannerError: ENGINE_FAILED where no renderer exists.
    """
    mujoco, drone = world.scene.mujoco, world.drones[name]
    camera = mujoco.MjvCamera()
    number = world.scene.model.body(name).id
    turn = np.array(world.scene.data.xmat[number]).reshape(3, 3)
    ahead = turn[:, 0]
    mount = drone.position + turn @ (np.array(shape.camera_at_m) + np.array([_BACK_M, 0.0, 0.0]))
    camera.lookat[:] = mount + ahead
    camera.distance = 1.0
    camera.azimuth = float(np.degrees(np.arctan2(ahead[1], ahead[0])))
    camera.elevation = float(np.degrees(np.arcsin(np.clip(ahead[2], -1.0, 1.0))))
    return _draw(world, camera, (WIDTH, HEIGHT), min(MOST_DEG, field_of_view_deg))


def save(picture: Picture, path: Path) -> None:
    """Writes a picture as PNG.

    Raises:
        PlannerError: INVALID_CONFIG if matplotlib is not installed.
    """
    load_extra("matplotlib", "plots")
    from matplotlib.image import imsave

    path.parent.mkdir(parents=True, exist_ok=True)
    imsave(path, picture)


def _draw(world: PhysicsWorld, camera: Any, size: tuple[int, int], field_of_view_deg: float) -> Picture:
    scene = world.scene
    scene.model.vis.global_.fovy = field_of_view_deg
    try:
        renderer = scene.mujoco.Renderer(scene.model, size[1], size[0])
    except Exception as error:  # whatever the graphics library of this machine raises
        raise PlannerError(
            ErrorCode.ENGINE_FAILED,
            f"no picture: this machine cannot render without a display ({error}); install Mesa's EGL (libegl1, "
            "libgl1-mesa-dri) or OSMesa (libosmesa6, with MUJOCO_GL=osmesa)",
        ) from error
    try:
        renderer.update_scene(scene.data, camera)
        picture: Picture = renderer.render().copy()
        return picture
    finally:
        renderer.close()
