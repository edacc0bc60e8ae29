# SPDX-License-Identifier: Apache-2.0
"""A fleet in a world as SDF, and what ROS receives from it: the counterpart of ``physics.fleet`` for Gazebo."""

import math
from collections.abc import Mapping
from itertools import accumulate, pairwise

import yaml

from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.robots.shape import Shape
from llm_planner.sim.gazebo.elements import Element, child, children, numbers, text_of
from llm_planner.sim.gazebo.gripper import graspable
from llm_planner.sim.gazebo.inertia import inertia_of
from llm_planner.sim.gazebo.sdf import PLACES_HZ, SDF_VERSION, add_link, add_odometry, add_robot, add_shapes
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.scene import BENCH_M
from llm_planner.sim.physics.things import Thing, Walk
from llm_planner.sim.physics.world_file import WorldFile, home_of

STEP_S = 0.002
PLACE_M = 1e-3  # height of an area: it is only seen
_SYSTEMS = {
    "physics": "Physics",
    "user-commands": "UserCommands",
    "scene-broadcaster": "SceneBroadcaster",
    "contact": "Contact",
}


def world_text(models: Mapping[str, RobotModel], world_file: WorldFile | None) -> str:
    """Returns a world with a fleet as an SDF document.

    Args:
        models: Of the robots, by their names.
        world_file: What stands there, and where robots begin; None for empty stages.

    Raises:
        PlannerError: INVALID_CONFIG if there are more robots than places, INVALID_ROBOT_MODEL for one without a body.
    """
    root = Element("sdf", version=SDF_VERSION)
    world = child(root, "world", name=world_file.name if world_file else "stages")
    physics = child(world, "physics", name="steps", type="ignored")
    children(physics, {"max_step_size": STEP_S, "real_time_factor": 1.0})
    for file, name in _SYSTEMS.items():
        child(world, "plugin", filename=f"gz-sim-{file}-system", name=f"gz::sim::systems::{name}")
    _add_light_and_floor(world)
    things = [] if world_file is None else world_file.things
    for thing in things:
        _add_thing(world, thing)
    for name, home in homes(models, world_file).items():
        if models[name].kind is RobotKind.ARM and home.z_m > 0.0:
            _add_bench(world, name, home)
        add_robot(world, name, models[name], home, graspable(models[name], home, things))
    return text_of(root)


def homes(models: Mapping[str, RobotModel], world_file: WorldFile | None) -> dict[str, Home]:
    """Returns where each robot begins."""
    counts = {True: 0, False: 0}
    found: dict[str, Home] = {}
    for name, model in models.items():
        is_arm = model.kind is RobotKind.ARM
        found[name] = home_of(world_file, is_arm=is_arm, number=counts[is_arm])
        counts[is_arm] += 1
    return found


def bridge_text(models: Mapping[str, RobotModel], world_file: WorldFile | None) -> str:
    """Returns the configuration of ``ros_gz_bridge``: what ROS and Gazebo tell each other."""
    things = [] if world_file is None else world_file.things
    topics = [_topic("/clock", "rosgraph_msgs/msg/Clock", "Clock", is_received=True)]
    topics += [_odometry(thing.known.name) for thing in things if thing.is_loose]
    places = homes(models, world_file)
    for name, model in models.items():
        base = f"/model/{name}"
        if model.kind is not RobotKind.ARM:
            topics.append(_topic(f"{base}/cmd_vel", "geometry_msgs/msg/Twist", "Twist", is_received=False))
            topics.append(_odometry(name))
            continue
        trajectory = "trajectory_msgs/msg/JointTrajectory"
        topics.append(_topic(f"{base}/joint_trajectory", trajectory, "JointTrajectory", is_received=False))
        topics.append(_topic(f"{base}/joint_states", "sensor_msgs/msg/JointState", "Model", is_received=True))
        for thing in graspable(model, places[name], things):
            orders = [f"{base}/{order}/{thing}" for order in ("attach", "detach")]
            topics += [_topic(order, "std_msgs/msg/Empty", "Empty", is_received=False) for order in orders]
            topics.append(_topic(f"{base}/grip/{thing}", "std_msgs/msg/String", "StringMsg", is_received=True))
    return str(yaml.safe_dump(topics, sort_keys=False))


def _odometry(name: str) -> dict[str, str]:
    return _topic(f"/model/{name}/odometry", "nav_msgs/msg/Odometry", "Odometry", is_received=True)


def _topic(name: str, ros_type: str, gz_type: str, *, is_received: bool) -> dict[str, str]:
    return {
        "ros_topic_name": name,
        "gz_topic_name": name,
        "ros_type_name": ros_type,
        "gz_type_name": f"gz.msgs.{gz_type}",
        "direction": "GZ_TO_ROS" if is_received else "ROS_TO_GZ",
    }


def _add_light_and_floor(world: Element) -> None:
    light = child(world, "light", name="sun", type="directional")
    children(light, {"cast_shadows": "true", "pose": "0 0 20 0 0 0", "diffuse": "0.9 0.9 0.9 1"})
    children(light, {"specular": "0.2 0.2 0.2 1", "direction": "0.2 0.3 -1"})
    floor = child(world, "model", name="floor")
    child(floor, "static", "true")
    link = child(floor, "link", name="link")
    for tag in ("collision", "visual"):
        part = child(link, tag, name=tag)
        children(child(child(part, "geometry"), "plane"), {"normal": "0 0 1", "size": "200 200"})
        if tag == "visual":
            children(child(part, "material"), {"ambient": "0.75 0.73 0.7 1", "diffuse": "0.75 0.73 0.7 1"})


def _add_thing(world: Element, thing: Thing) -> None:
    known = thing.known
    if thing.walk is not None:
        _add_walker(world, thing, thing.walk)
        return
    model = child(world, "model", name=known.name)
    child(model, "pose", numbers((*known.position_m, 0.0, 0.0, math.radians(thing.yaw_deg))))
    if not thing.is_solid:
        child(model, "static", "true")
        flat = Shape(kind="box", size_m=(*(max(PLACE_M, size) for size in known.size_m[:2]), PLACE_M))
        add_shapes(child(model, "link", name="link"), (flat,), is_solid=False)
    elif thing.is_loose:
        add_link(model, "link", thing.solids, inertia_of(thing.solids, thing.mass_kg), has_gravity=True)
        add_odometry(model, known.name, "link", PLACES_HZ)
    else:
        child(model, "static", "true")
        add_shapes(child(model, "link", name="link"), thing.solids)


def _add_bench(world: Element, name: str, home: Home) -> None:
    """Appends the table that an arm stands on, as in MuJoCo."""
    model = child(world, "model", name=f"{name}_bench")
    child(model, "static", "true")
    at_m = home.to_world((BENCH_M[0] / 2.0 - 0.3, 0.0, -home.z_m / 2.0))
    child(model, "pose", numbers((*(float(x) for x in at_m), 0.0, 0.0, math.radians(home.yaw_deg))))
    bench = Shape(kind="box", size_m=(*BENCH_M, home.z_m - 1e-3), colour=(0.62, 0.5, 0.38))
    add_shapes(child(model, "link", name="link"), (bench,))


def _add_walker(world: Element, thing: Thing, walk: Walk) -> None:
    """Appends an actor: it is seen, and goes its way by script; nothing can push it, and it pushes nothing."""
    actor = child(world, "actor", name=thing.known.name)
    add_shapes(child(actor, "link", name="link"), thing.solids, is_solid=False)
    script = child(actor, "script")
    children(script, {"loop": str(walk.is_repeated).lower(), "delay_start": walk.start_s, "auto_start": "true"})
    trajectory = child(script, "trajectory", id="0", type="line")
    corners = [*walk.corners, *reversed(walk.corners[:-1])] if walk.is_repeated else list(walk.corners)
    legs_s = [math.dist(a, b) / walk.speed_m_per_s for a, b in pairwise(corners)]
    for time_s, corner in zip(accumulate(legs_s, initial=0.0), corners, strict=True):
        point = child(trajectory, "waypoint")
        children(point, {"time": time_s, "pose": numbers((*corner, 0.0, 0.0, 0.0))})
