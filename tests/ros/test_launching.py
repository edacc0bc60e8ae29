# SPDX-License-Identifier: Apache-2.0
"""Launch files look at their arguments before they start anything; launch itself is a fake (``launch_fakes``)."""

import os
import sys
from pathlib import Path

import pytest
import rclpy
from ament_index_python.packages import get_package_share_directory

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros import launching, qos
from llm_planner.ros.composition import Fleet
from llm_planner.srv import Instruct
from tests.ros import launch_fakes
from tests.ros.launch_fakes import ExecuteProcess, command_of, launch
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros
TIMEOUT_S = 60.0
FLEET = "fleet_sim"
CLUSTER = Path(__file__).resolve().parents[2] / "config/cluster.yaml"
EXAMPLE = Path(__file__).resolve().parents[2] / "config/scenario_example.yaml"


@pytest.fixture(autouse=True)
def fake_launch(monkeypatch):
    launch_fakes.install(monkeypatch)


def names(started):
    """Full names of the nodes."""
    nodes = [entity.options for entity in started if "executable" in entity.options]
    return [f"/{o.get('namespace', '')}/{o.get('name')}".replace("//", "/") for o in nodes]


def test_planner_and_robots_move_together():
    assert names(launch(FLEET, drones="1")) == ["/planner", "/drone_1", "/arm_1"]
    started = launch(FLEET, namespace="/site_b", name="brain", dashboard="true", sim="mujoco")
    assert {node.options["namespace"] for node in started} == {"/site_b"}
    parameters = {node.options.get("name", "dashboard"): node.options["parameters"][-1] for node in started}
    assert parameters.keys() == {"brain", "dashboard", "world", "drone_1", "drone_2", "drone_3", "arm_1"}
    asked = {name: given.get("planner") for name, given in parameters.items() if name not in ("brain", "world")}
    assert set(asked.values()) == {"/site_b/brain"}


def test_two_fleets_live_in_two_namespaces(ros, tmp_path):
    given = {"backend": "fake", "drones": "1", "arms": "0", "time_scale": "20.0"}
    commands = {}
    for site, name in (("site_a", "planner"), ("site_b", "brain")):
        for node in launch(FLEET, namespace=site, name=name, **given):
            commands[f"{site}_{node.options['name']}"] = command_of(node)
    operator, outcomes = rclpy.create_node("operator"), {"site_a": [], "site_b": []}
    for site, ended in outcomes.items():
        operator.create_subscription(msgs.PlanOutcome, f"/{site}/drone_1/outcome", ended.append, qos.OUTCOMES)
    clients = {site: operator.create_client(Instruct, f"/{site}/drone_1/instruct") for site in outcomes}
    spinner = Spinner(operator)
    with Fleet(commands, log_dir=tmp_path):
        for site, client in clients.items():
            assert client.wait_for_service(TIMEOUT_S)
            spinner.executor.create_task(client.call_async, Instruct.Request(instruction="speak", tag=site))
        wait_until(lambda: all(outcomes.values()), TIMEOUT_S, "both outcomes")
    spinner.stop()
    operator.destroy_node()
    for site, (outcome,) in outcomes.items():
        assert (outcome.tag, outcome.robot_id, outcome.error_code) == (site, f"{site}/drone_1", ErrorCode.NONE)
        planner = "planner" if site == "site_a" else "brain"
        assert f"goal {outcome.goal_id} is done" in (tmp_path / f"{site}_{planner}.log").read_text()


@pytest.mark.parametrize("arms", ["0", "1"])
def test_a_scenario_for_robots_that_are_not_started_is_warned_of_once(arms, caplog):
    launch(FLEET, drones="2", arms=arms, scenario=str(EXAMPLE))
    assert caplog.text.count("not started: arm_1; started: drone_1, drone_2") == (arms == "0")


@pytest.mark.parametrize(
    ("given", "code", "part"),
    [
        ({"drones": "x"}, ErrorCode.INVALID_CONFIG, "whole number from 0 to 100"),
        ({"drones": "9" * 5000}, ErrorCode.INVALID_CONFIG, "whole number"),
        ({"drones": "-1"}, ErrorCode.INVALID_CONFIG, "whole number"),
        ({"time_scale": "nan"}, ErrorCode.INVALID_CONFIG, "0.01 to 1000"),
        ({"scene": "maybe"}, ErrorCode.INVALID_CONFIG, "true or false"),
        ({"sim": "paper"}, ErrorCode.INVALID_CONFIG, "kinematic or mujoco"),
        ({"world": "house"}, ErrorCode.INVALID_CONFIG, "sim:=mujoco"),
        ({"tellos": "192.168.10.1, here"}, ErrorCode.INVALID_CONFIG, "'here'"),
        ({"tellos": "192.168.10.1,192.168.10.2", "drones": "1"}, ErrorCode.INVALID_CONFIG, "drones:=2"),
        ({"tellos": "192.168.10.1,192.168.10.1"}, ErrorCode.INVALID_CONFIG, "two drones .* '192.168.10.1'"),
        (
            {"tellos": "127.0.0.11,192.168.10.1", "time_scale": "5"},
            ErrorCode.INVALID_CONFIG,
            "real Tello .* set it to 1",
        ),
        ({"scenario": "nowhere.yaml"}, ErrorCode.INVALID_FILE, "nowhere.yaml"),
        ({"config": "nowhere.yaml"}, ErrorCode.INVALID_FILE, "nowhere.yaml"),
        ({"model": "nothing"}, ErrorCode.MODEL_NOT_FOUND, "planner-small"),
        ({"policy": "lottery"}, ErrorCode.INVALID_CONFIG, "known are"),
        ({"backend": "quantum"}, ErrorCode.INVALID_CONFIG, "known are"),
        ({"metrics_port": "99999"}, ErrorCode.INVALID_CONFIG, "65535"),
        ({"dashboard_port": "http"}, ErrorCode.INVALID_CONFIG, "65535"),
        ({"network": "galaxy"}, ErrorCode.INVALID_CONFIG, "host or subnet"),
        ({"name": "1st"}, ErrorCode.INVALID_CONFIG, "no ROS node can be called '/1st'"),
        ({"name": "site_b/brain"}, ErrorCode.INVALID_CONFIG, "name is 'site_b/brain'; .*namespace:="),
        ({"name": "brain/"}, ErrorCode.INVALID_CONFIG, "name is 'brain/'"),
        ({"name": "", "namespace": "site_b"}, ErrorCode.INVALID_CONFIG, "name is ''"),
        ({"namespace": "a//b"}, ErrorCode.INVALID_CONFIG, "'/a//b/planner'"),
        ({"namespace": "bad name"}, ErrorCode.INVALID_CONFIG, "bad name"),
        ({"backend": "openai", "base_url": "localhost:8000"}, ErrorCode.INVALID_CONFIG, "give an address like http"),
    ],
)
def test_a_wrong_argument_starts_nothing(given, code, part):
    with pytest.raises(PlannerError, match=part) as caught:
        launch(FLEET, **given)
    assert caught.value.code is code
    assert caught.value.started_before == []


@pytest.mark.parametrize("given", [{"drones": "9", "world": "table"}, {"world": "moon"}])
def test_a_world_that_cannot_be_starts_nothing(given):
    pytest.importorskip("mujoco")
    with pytest.raises(PlannerError, match="world") as caught:
        launch(FLEET, sim="mujoco", **given)
    assert caught.value.started_before == []


def test_a_port_in_use_starts_nothing(used_port):
    pytest.importorskip("mujoco")
    with pytest.raises(PlannerError, match=f"world_port:={used_port + 1}") as caught:
        launch(FLEET, sim="mujoco", world_port=str(used_port))
    assert (caught.value.code, caught.value.started_before) == (ErrorCode.ADDRESS_IN_USE, [])


@pytest.fixture
def used_port():
    """A port that something listens on meanwhile."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("text", ["/**: {ros__parameters: {tempratur: 0.5}}", "tempratur: 0.5"])
def test_an_unknown_parameter_is_refused_as_in_up(tmp_path, text):
    (config := tmp_path / "planner.yaml").write_text(text)
    with pytest.raises(PlannerError, match="tempratur") as caught:
        launch("edge_server", config=str(config))
    assert (caught.value.code, caught.value.started_before) == (ErrorCode.INVALID_CONFIG, [])


def test_files_of_either_kind_reach_the_planner(tmp_path):
    (plain := tmp_path / "plain.yaml").write_text("temperature: 0.5\nengine: {num_threads: 1}\n")
    (planner,) = launch("edge_server", config=str(plain), backend="fake")
    assert planner.options["parameters"] == [{"temperature": 0.5, "engine.num_threads": 1, "backend": "fake"}]
    (own := tmp_path / "own.yaml").write_text("/**: {ros__parameters: {use_sim_time: true, temperature: 0.5}}")
    (planner,) = launch("edge_server", config=str(own), metrics_port="9400")
    assert planner.options["parameters"] == [str(own), {"metrics_port": 9400}]
    (named := tmp_path / "named.yaml").write_text("/site_b/edge: {ros__parameters: {backend: fake}}")
    (planner,) = launch("edge_server", config=str(named), name="edge", namespace="site_b")
    assert planner.options["parameters"] == [str(named), {}]
    (of_node := tmp_path / "of_node.yaml").write_text("backend: fake\nmetrics_port: 9400\n")
    (planner,) = launch("edge_server", config=str(of_node))
    assert planner.options["parameters"] == [{"backend": "fake", "metrics_port": 9400}]


def test_an_argument_that_a_launch_file_lacks_is_refused_unless_another_file_includes_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ros2", "launch", "llm_planner", "fleet_sim.launch.py", "dronez:=2"])
    with pytest.raises(PlannerError, match="no argument 'dronez'") as caught:
        launch(FLEET, dronez="2")
    assert caught.value.started_before == []
    monkeypatch.setattr(sys, "argv", ["ros2", "launch", "my_package", "all.launch.py", "dronez:=2"])
    assert launch(FLEET, dronez="2")


def test_an_emulated_tello_may_run_faster_than_real_time():
    assert names(launch(FLEET, tellos="127.0.0.11", time_scale="5", drones="1", arms="0")) == ["/planner", "/drone_1"]


@pytest.mark.parametrize(("node", "started"), [("0", "0"), (" 1", "1")])
def test_a_machine_of_a_cluster_runs_its_part(node, started):
    (process,) = launch("cluster_node", cluster=str(CLUSTER), node=node)
    assert process.options["cmd"] == ["llm-planner", "cluster", "run", str(CLUSTER), "--node", started]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"nodes": "1"}, "no argument 'nodes'; known are: cluster, node"),
        ({"node": "2"}, "node is '2'; give a whole number from 0 to 1"),
        ({"node": "one"}, "node is 'one'"),
        ({"cluster": "nowhere.yaml"}, "nowhere.yaml"),
    ],
)
def test_a_wrong_machine_of_a_cluster_starts_nothing(monkeypatch, given, part):
    monkeypatch.setattr(sys, "argv", ["ros2", "launch", "llm_planner", "cluster_node.launch.py"])
    with pytest.raises(PlannerError, match=part) as caught:
        launch("cluster_node", **({"cluster": str(CLUSTER)} | given))
    assert caught.value.started_before == []


def test_a_missing_gazebo_starts_nothing_and_names_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "kilted")
    with pytest.raises(PlannerError, match="sudo apt install ros-kilted-ros-gz") as caught:
        launch("gazebo")
    assert (caught.value.code, caught.value.started_before) == (ErrorCode.NOT_INSTALLED, [])


def test_gazebo_starts_with_planner_and_robots(monkeypatch, tmp_path):
    (tmp_path / "gz").write_text("#!/bin/sh\n")
    (tmp_path / "gz").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launching, "get_package_prefix", lambda _: str(tmp_path))
    started = launch("gazebo", drones="1", arms="1", namespace="site_b")
    assert names(started) == ["/site_b/planner", "/gazebo_bridge", "/site_b/drone_1", "/site_b/arm_1"]
    (gazebo,) = (entity for entity in started if isinstance(entity, ExecuteProcess))
    assert gazebo.options["cmd"][:2] == ["gz", "sim"]
    with pytest.raises(PlannerError) as caught:
        launch("gazebo", world="moon")
    assert caught.value.started_before == []


def test_robots_begin_among_a_few_things_unless_asked_for_none():
    scenes = {
        scene: [node.options["parameters"][-1].get("default_scene", False) for node in launch(FLEET, scene=scene)[1:]]
        for scene in ("true", "false")
    }
    assert scenes == {"true": [True] * 4, "false": [False] * 4}


def test_ros2_launch_finds_the_files():
    """It follows no link to a directory (ros2launch.api)."""
    found = {name for _, _, files in os.walk(get_package_share_directory("llm_planner")) for name in files}
    assert {path.name for path in launch_fakes.LAUNCH.glob("*.launch.py")} <= found
    assert Path(launch_fakes.LAUNCH / "edge_server.launch.py").is_file()
