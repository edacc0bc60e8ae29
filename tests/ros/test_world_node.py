# SPDX-License-Identifier: Apache-2.0
"""A world of bodies as a node: robot nodes connect to it, fly, and ROS tools see where they are."""

from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from rclpy.clock_type import ClockType
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

pytest.importorskip("mujoco")

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.playback import Recording
from llm_planner.ros.recorder_node import RecorderNode
from llm_planner.ros.snapshot import Snapshot
from llm_planner.ros.world_node import TWO_CLOCKS, WorldNode
from llm_planner.ros.world_view import WorldView
from tests.ros.nodes import Spinner, wait_until
from tests.ros.test_robot_node import CHAIR, start_operator, statuses  # noqa: F401 (a fixture)
from tests.sim.physics.test_client import start_world  # noqa: F401 (a fixture)

pytestmark = pytest.mark.ros
SCALE = 4.0


def make_world(**parameters):
    given = {"robots": ["body_1:tello", "body_2:tello"], "port": 0, "time_scale": SCALE} | parameters
    return WorldNode(f"world_{len(given)}", parameter_overrides=[Parameter(n, value=v) for n, v in given.items()])


@pytest.fixture
def world(ros):
    node = make_world()
    spinner = Spinner(node)
    yield node
    spinner.stop()
    node.close()


def body(world):
    return {"driver": "mujoco", "address": f"127.0.0.1:{world.port}", "time_scale": SCALE}


def test_a_plan_is_flown_by_a_body_in_the_world(planner, world, start_operator):  # noqa: F811 (a fixture)
    operator = start_operator("body_1", **body(world))
    clocks = []
    operator.node.create_subscription(Clock, "/clock", clocks.append, 10)
    assert operator.instruct("mf(100);tc(90);", [CHAIR]).accepted
    outcome = operator.outcome()
    assert (outcome.error_code, statuses(outcome)) == (ErrorCode.NONE, [msgs.SegmentOutcome.SUCCEEDED] * 2)
    pose = Snapshot.from_json(outcome.world).pose
    assert (pose.x_m, pose.y_m) == (pytest.approx(1.0, abs=0.12), pytest.approx(0.0, abs=0.12))
    assert pose.yaw_deg == pytest.approx(-90.0, abs=4.0)
    wait_until(lambda: len(clocks) >= 2, what="clock")
    assert clocks[-1].clock.sec + clocks[-1].clock.nanosec > 0
    with pytest.raises(PlannerError) as caught:  # two drivers for one robot
        start_operator("body_1", **body(world))
    assert caught.value.code is ErrorCode.DUPLICATE_NODE


def test_a_collision_ends_the_goal_with_its_reason_and_others_fly_on(planner, world, start_operator):  # noqa: F811
    unlucky, other = start_operator("body_1", **body(world)), start_operator("body_2", **body(world))
    unlucky.instruct("mf(300);", [CHAIR | {"position_m": [1.0, 0.0, 1.0]}])
    other.instruct("mf(50);mb(50);")
    outcome = unlucky.outcome()
    assert outcome.error_code == ErrorCode.SKILL_FAILED
    assert "collided with chair" in outcome.error_msg
    assert other.outcome().error_code == ErrorCode.NONE


def test_a_world_that_cannot_be_ends_the_instruction_not_the_node(planner, world, start_operator):  # noqa: F811
    operator = start_operator("body_1", **body(world))
    response = operator.instruct("mf(50);", [CHAIR, CHAIR | {"name": "desk"}])
    assert not response.accepted
    assert response.error_code == ErrorCode.INVALID_WORLD
    assert "chair and desk overlap" in response.error_msg
    assert operator.instruct("mf(50);", [CHAIR]).accepted
    assert operator.outcome().error_code == ErrorCode.NONE


def test_a_world_that_is_killed_fails_the_plan_and_the_node_flies_in_the_next_one(
    planner,
    start_operator,  # noqa: F811
    start_world,  # noqa: F811
):
    process = start_world()
    parameters = {"driver": "mujoco", "address": f"127.0.0.1:{process.port}", "time_scale": 2.0}
    operator = start_operator("drone_1", **parameters)
    operator.instruct("mf(300);", [CHAIR | {"position_m": [9.0, 0.0, 1.0]}])
    wait_until(lambda: operator.robot._robot.pose.x_m > 0.3, what="flight")
    process.kill()
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.SKILL_FAILED
    assert "nothing is received from the robot's body" in outcome.error_msg
    response = operator.instruct("mf(20);", [CHAIR])
    assert (response.accepted, response.error_code) == (False, ErrorCode.SERVER_UNREACHABLE)
    control = operator.robot._robot
    wait_until(lambda: "tried again until it succeeds" in control.last_fault, what="a stop that nothing confirms")
    start_world(process.port)
    wait_until(lambda: operator.instruct("mf(20);", [CHAIR]).accepted, 30.0, "a world")
    wait_until(lambda: len(operator.outcomes) == 2, 30.0, "outcome")
    assert operator.outcome(2).error_code == ErrorCode.NONE


def test_the_world_is_published_by_the_steady_clock(world):
    assert [timer.clock.clock_type for timer in world.timers] == [ClockType.STEADY_TIME]


def test_every_body_has_a_transform_and_every_arm_its_joints(ros):
    """Also where the packages of these messages are missing: their place is taken by namespaces."""
    node = make_world(robots=["body_1:tello", "arm_1:indy7"], world="table", seed=1, wind_m_per_s=0.0)
    try:
        view = node._view
        with node._server.lock:
            assert view.look().keys() == {"clock"}  # no subscriber
        stand_in = SimpleNamespace(msg_type=SimpleNamespace, publish=lambda _: None, get_subscription_count=lambda: 1)
        view._publishers |= {"/tf": stand_in, "arm_1/joint_states": stand_in}
        with node._server.lock:
            seen = view.look()
        frames = {transform.child_frame_id: transform.transform for transform in seen["/tf"].transforms}
        assert {"body_1", "arm_1/joint5", "red_box", "person"} <= set(frames)
        place = frames["red_box"].translation
        assert (place.x, place.y, place.z) == pytest.approx((0.5, 0.0, 0.775), abs=0.01)
        joints = seen["arm_1/joint_states"]
        assert joints.name == [f"joint{number}" for number in range(6)]
        assert len(joints.position) == 6
        view.publish(seen)
    finally:
        node.close()


def count_of(recorder, topic):
    """Returns a function that says how many messages of a topic have been recorded since."""
    topics, channels, add = {}, [], recorder._file.add
    add_channel = recorder._file.add_channel

    def adding_channel(name, *arguments):
        channel = add_channel(name, *arguments)
        topics[channel] = name
        return channel

    def adding(channel, *arguments, **options):
        add(channel, *arguments, **options)
        channels.append(channel)

    recorder._file.add_channel, recorder._file.add = adding_channel, adding
    return lambda: sum(topics.get(channel) == topic for channel in channels)


def test_transforms_are_received_and_recorded_with_their_definition(ros, tmp_path):
    tf2 = pytest.importorskip("tf2_msgs.msg", reason="tf2_msgs is not installed: `make setup` compiles it")
    path = tmp_path / "tape.mcap"
    node = make_world(robots=["body_1:tello", "arm_1:indy7"], world="table", wind_m_per_s=0.0)
    recorder = RecorderNode("tf_recorder", parameter_overrides=[Parameter("path", value=str(path))])
    count = count_of(recorder, "/tf")
    listener, received = rclpy.create_node("tf_listener"), []
    listener.create_subscription(tf2.TFMessage, "/tf", received.append, 10)
    spinner = Spinner(node, recorder, listener)
    try:
        wait_until(lambda: len(received) >= 3 and recorder._recorder.topics >= {"/tf", "/clock"}, what="transforms")
        wait_until(lambda: count() >= 3, what="a recording of transforms")
    finally:
        spinner.stop()
        recorder.close()
        listener.destroy_node()
        node.close()
    frames = {transform.child_frame_id: transform for transform in received[-1].transforms}
    assert {"body_1", "arm_1/joint5", "red_box", "person"} <= set(frames)
    assert frames["red_box"].header.frame_id == "world"
    assert frames["red_box"].transform.translation.z == pytest.approx(0.775, abs=0.01)
    taped = [message.decode() for message in Recording(path).messages() if message.topic == "/tf"]
    assert taped
    assert {transform.child_frame_id for transform in taped[-1].transforms} == set(frames)


def world_frames(namespace):
    """Returns the transforms of a world in a namespace by child, where its bodies are, and a drone's odometry."""
    nav = pytest.importorskip("nav_msgs.msg")
    node = make_world(robots=["body_1:tello", "arm_1:indy7"], world="table", seed=1, wind_m_per_s=0.0)
    viewer = rclpy.create_node("viewer", namespace=namespace)
    try:
        view = WorldView(viewer, node._view._world, {})
        for topic, kind in {"/tf": SimpleNamespace, "body_1/odom": nav.Odometry}.items():
            view._publishers[topic] = SimpleNamespace(msg_type=kind, get_subscription_count=lambda: 1)
        with node._server.lock:
            scene, seen = view._world.scene, view.look()
            places = {scene.model.body(n).name: scene.data.xpos[n].copy() for n in range(1, scene.model.nbody)}
        return {t.child_frame_id: t for t in seen["/tf"].transforms}, places, seen["body_1/odom"]
    finally:
        viewer.destroy_node()
        node.close()


def in_world(frames, name):
    """Returns where a frame is in the root of its tree, by the transforms on the way."""
    place = np.zeros(3)
    while name in frames:
        turn, way = frames[name].transform.rotation, frames[name].transform.translation
        axis = np.array((turn.x, turn.y, turn.z))
        place = place + 2 * np.cross(axis, np.cross(axis, place) + turn.w * place) + (way.x, way.y, way.z)
        name = frames[name].header.frame_id
    return place


def test_links_are_under_their_parents(ros):
    frames, places, _ = world_frames("/")
    assert frames["arm_1/joint5"].header.frame_id == "arm_1/joint4"
    assert frames["body_1"].header.frame_id == "world"
    for name, place in places.items():
        assert in_world(frames, name.lstrip(":").replace(":", "/")) == pytest.approx(place, abs=1e-6), name


def test_worlds_of_two_namespaces_share_no_frame(ros):
    seen = [world_frames(namespace) for namespace in ("/a", "/b")]
    trees = [set(frames) | {t.header.frame_id for t in frames.values()} for frames, _, _ in seen]
    assert not trees[0] & trees[1]
    assert {"a/world", "a/body_1", "a/arm_1/joint5"} <= trees[0]
    assert [(odom.header.frame_id, odom.child_frame_id) for _, _, odom in seen] == [
        ("a/world", "a/body_1"),
        ("b/world", "b/body_1"),
    ]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"robots": ["body_1"]}, "is not NAME:MODEL"),
        ({"robots": ["a:tello", "a:tello"]}, "with a name of its own"),
        ({"robots": ["a:dragon"]}, "dragon"),
        ({"world": "palace"}, "known are house, table"),
    ],
)
def test_parameters_that_cannot_be_are_named(ros, parameters, reason):
    with pytest.raises(PlannerError, match=reason):
        make_world(**parameters)


def test_the_topics_of_bodies_are_in_the_namespace_of_their_world(ros):
    arm = SimpleNamespace(shape=SimpleNamespace(joints=[]))
    world = SimpleNamespace(arms={"reach_9": arm}, drones={"body_9": None})
    node = rclpy.create_node("world_9", namespace="/site_b")
    WorldView(node, world, {})
    offered = {topic for topic, _ in node.get_publisher_names_and_types_by_node("world_9", "/site_b")}
    node.destroy_node()
    bodies = {"/site_b/body_9/odom", "/site_b/reach_9/joint_states"}
    assert bodies | {"/tf", "/site_b/clock", "/site_b/world/markers"} <= offered
    assert not {"/clock", "/world/markers"} & offered


def test_worlds_of_two_namespaces_share_no_clock(ros):
    """Each fleet follows its own world, as a node of it does with ``/clock`` remapped."""
    worlds = [make_world(), make_world(seed=1)]  # of different names
    viewers = [rclpy.create_node("world", namespace=namespace) for namespace in ("/site_a", "/site_b")]
    views = [WorldView(viewer, node._view._world, {}) for viewer, node in zip(viewers, worlds, strict=True)]
    clock = Parameter("use_sim_time", value=True)
    remapped = ["--ros-args", "-r", "/clock:=/site_b/clock"]
    follower = rclpy.create_node("follower", cli_args=remapped, parameter_overrides=[clock])
    stranger = rclpy.create_node("stranger", parameter_overrides=[clock])
    spinner = Spinner(follower, stranger)
    try:
        stamps = [Clock(), Clock()]
        stamps[0].clock.sec, stamps[1].clock.sec = 7, 1000

        def publish():
            for view, stamp in zip(views, stamps, strict=True):
                view.publish({"clock": stamp})
            return follower.get_clock().now().nanoseconds

        wait_until(publish, what="the time of its world")
        assert follower.get_clock().now().nanoseconds == 1000 * 10**9
        assert stranger.get_clock().now().nanoseconds == 0
        assert not any(view.shares_clock for view in views)
    finally:
        spinner.stop()
        for node in (follower, stranger, *viewers):
            node.destroy_node()
        for node in worlds:
            node.close()


def test_a_world_whose_clock_has_a_second_publisher_says_so(world, monkeypatch):
    warnings = []
    logger = type(world.get_logger())
    monkeypatch.setattr(logger, "warning", lambda _self, text, **_options: warnings.append(text))
    assert not world._view.shares_clock
    other = rclpy.create_node("other_world")
    try:
        other.create_publisher(Clock, "/clock", 10)
        wait_until(lambda: warnings, what="a warning")
        assert set(warnings) == {TWO_CLOCKS}
    finally:
        other.destroy_node()
