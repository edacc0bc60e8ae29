# SPDX-License-Identifier: Apache-2.0
"""What ROS tools see of a physical world: clock, transforms, joint states, odometry, markers."""

import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, TransformStamped, Vector3
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from std_msgs.msg import ColorRGBA, Header

from llm_planner.robots.model import RobotModel
from llm_planner.ros.poses import from_yaw
from llm_planner.sim.physics.world import PhysicsWorld

FRAME = "world"
_MARKERS = {"BOX": 1, "SPHERE": 2, "CYLINDER": 3}


class WorldView:
    """Publishers of one world; a topic without a subscriber costs nothing, except for the clock.

    All but ``/tf`` is published in the node's namespace, so worlds of several namespaces do not meet; on ``/tf`` the
    names of frames begin with it. A world in the root namespace publishes ``/clock``, which nodes with ``use_sim_time``
    follow; any other publishes ``NAMESPACE/clock``, unless it is remapped.

    Args:
        node: That publishes.
        world: Looked at with its lock held.
        models: Of its robots.
    """

    def __init__(self, node: Node, world: PhysicsWorld, models: Mapping[str, RobotModel]) -> None:
        self._node, self._world = node, world
        self._prefix = f"{node.get_namespace()}/".lstrip("/")
        self._joints = {
            name: [joint.name for joint in arm.shape.joints] for name, arm in world.arms.items() if name in models
        }
        self._publishers: dict[str, Any] = {"clock": node.create_publisher(Clock, "clock", 10)}
        self._offer("/tf", "tf2_msgs", "TFMessage")
        for name in world.arms:
            self._offer(f"{name}/joint_states", "sensor_msgs", "JointState")
        for name in world.drones:
            self._offer(f"{name}/odom", "nav_msgs", "Odometry")
        self._offer("world/markers", "visualization_msgs", "MarkerArray")

    def _offer(self, topic: str, package: str, name: str) -> None:
        try:
            kind = getattr(importlib.import_module(f"{package}.msg"), name)
        except ImportError:
            self._node.get_logger().warning(f"{package} is not installed: no {topic}")
            return
        self._publishers[topic] = self._node.create_publisher(kind, topic, 10)

    def _has_subscriber(self, topic: str) -> bool:
        return topic in self._publishers and self._publishers[topic].get_subscription_count() > 0

    def look(self) -> dict[str, Any]:
        """Returns the messages of this moment by topic."""
        now_s = self._world.time_s
        header = Header(frame_id=self._prefix + FRAME)
        header.stamp.sec, header.stamp.nanosec = int(now_s), int(math.fmod(now_s, 1.0) * 1e9)
        found: dict[str, Any] = {"clock": Clock(clock=header.stamp)}
        if self._has_subscriber("/tf"):
            found["/tf"] = self._transforms(header)
        for name, arm in self._world.arms.items():
            topic = f"{name}/joint_states"
            if self._has_subscriber(topic):
                kind = self._publishers[topic].msg_type
                positions = [float(angle) for angle in arm.joints]
                found[topic] = kind(header=header, name=self._joints[name], position=positions)
        for name in self._world.drones:
            topic = f"{name}/odom"
            if self._has_subscriber(topic):
                found[topic] = self._odometry(self._publishers[topic].msg_type, name, header)
        if self._has_subscriber("world/markers"):
            found["world/markers"] = self._markers(header)
        return found

    @property
    def shares_clock(self) -> bool:
        """Whether another node publishes this world's clock too: times of nodes that follow it jump."""
        clock = self._publishers["clock"]
        return bool(self._node.count_publishers(clock.topic_name) > 1)

    def publish(self, messages: Mapping[str, Any]) -> None:
        """Publishes what ``look`` returned."""
        for topic, message in messages.items():
            self._publishers[topic].publish(message)

    def _transforms(self, header: Header) -> Any:
        """Returns where each body is, seen from the body that carries it."""
        scene = self._world.scene
        model, data, mujoco = scene.model, scene.data, scene.mujoco
        names = [header.frame_id]
        transforms = []
        for number in range(1, model.nbody):
            names.append(self._prefix + model.body(number).name.lstrip(":").replace(":", "/"))
            parent = int(model.body_parentid[number])
            back, way, turn = np.zeros(4), np.zeros(3), np.zeros(4)
            mujoco.mju_negQuat(back, data.xquat[parent])
            mujoco.mju_rotVecQuat(way, data.xpos[number] - data.xpos[parent], back)
            mujoco.mju_mulQuat(turn, back, data.xquat[number])
            message = TransformStamped(child_frame_id=names[number])
            message.header.stamp, message.header.frame_id = header.stamp, names[parent]
            x, y, z = (float(v) for v in way)
            message.transform.translation, message.transform.rotation = Vector3(x=x, y=y, z=z), _quaternion(turn)
            transforms.append(message)
        return self._publishers["/tf"].msg_type(transforms=transforms)

    def _odometry(self, kind: type, name: str, header: Header) -> Any:
        """Returns where a drone believes to be, in the world's frame; its speed in its own."""
        drone = self._world.drones[name]
        message = kind(header=header, child_frame_id=self._prefix + name)
        x, y, z = (float(v) for v in drone.believed)
        message.pose.pose = Pose(position=Point(x=x, y=y, z=z), orientation=from_yaw(drone.yaw + drone.yaw_drift))
        c, s = math.cos(drone.yaw), math.sin(drone.yaw)
        vx, vy, vz = (float(v) for v in drone.velocity)
        message.twist.twist.linear = Vector3(x=c * vx + s * vy, y=c * vy - s * vx, z=vz)
        return message

    def _markers(self, header: Header) -> Any:
        scene = self._world.scene
        model, data, mujoco = scene.model, scene.data, scene.mujoco
        kind = self._publishers["world/markers"].msg_type
        marker_kind = importlib.import_module("visualization_msgs.msg").Marker
        shapes = {
            int(mujoco.mjtGeom.mjGEOM_BOX): (_MARKERS["BOX"], lambda s: (2 * s[0], 2 * s[1], 2 * s[2])),
            int(mujoco.mjtGeom.mjGEOM_SPHERE): (_MARKERS["SPHERE"], lambda s: (2 * s[0],) * 3),
            int(mujoco.mjtGeom.mjGEOM_CYLINDER): (_MARKERS["CYLINDER"], lambda s: (2 * s[0], 2 * s[0], 2 * s[1])),
        }
        markers = []
        for geom in range(model.ngeom):
            known = shapes.get(int(model.geom_type[geom]))
            if known is None:
                continue
            number, scale = known
            turn = _from_matrix(mujoco, data.geom_xmat[geom])
            x, y, z = (float(v) for v in data.geom_xpos[geom])
            sx, sy, sz = (float(v) for v in scale(model.geom_size[geom]))
            r, g, b, a = (float(v) for v in model.geom_rgba[geom])
            marker = marker_kind(header=header, ns=FRAME, id=geom, type=number, color=ColorRGBA(r=r, g=g, b=b, a=a))
            marker.pose = Pose(position=Point(x=x, y=y, z=z), orientation=turn)
            marker.scale = Vector3(x=sx, y=sy, z=sz)
            markers.append(marker)
        return kind(markers=markers)


def _quaternion(turn: Any) -> Quaternion:
    w, x, y, z = (float(v) for v in turn)
    return Quaternion(x=x, y=y, z=z, w=w)


def _from_matrix(mujoco: Any, matrix: Any) -> Quaternion:
    turn = np.zeros(4)
    mujoco.mju_mat2Quat(turn, matrix)
    return _quaternion(turn)
