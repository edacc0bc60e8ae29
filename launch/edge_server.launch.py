"""Starts the planner on the edge server: `ros2 launch llm_planner edge_server.launch.py model:=/path/to/checkpoint`.

It sets who can talk to the nodes (`network:=`), for itself and for all that a file that includes it starts afterwards.
"""

import os
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
    UnsetEnvironmentVariable,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import Action, LaunchContext, LaunchDescription
from llm_planner.ros.network import Network, environment

ARGUMENTS = {
    "model": (
        "",
        "A checkpoint directory, or the name of a bundled model; as in the config file if empty.",
    ),
    "policy": ("", "Name of a scheduling policy; as in the config file if empty."),
    "backend": ("", "What runs the model: torch, vllm, openai or fake; as in the config file if empty."),
    "base_url": ("", "With backend:=openai: the server's address, up to /v1; as in the config file if empty."),
    "config": ("", "A parameter file; config/planner.yaml of the package if empty."),
    "metrics_port": ("", "TCP port of Prometheus figures; as in the config file if empty, which is off."),
    "dashboard": ("false", "true: also show planner and robots in a browser."),
    "dashboard_port": ("8080", "Where the browser finds it: http://127.0.0.1:PORT/."),
    "network": ("host", "Who can talk to the nodes: host for this machine only, subnet for the whole network."),
    "name": ("planner", "Node name; the interfaces live below it."),
    "namespace": ("", "Namespace of the node."),
}
PARAMETERS = {
    "model": "engine.model",
    "policy": "scheduler.policy",
    "backend": "backend",
    "base_url": "openai.base_url",
}


CHOICES = {"network": [network.value for network in Network]}
RESPAWN_DELAY_S = 2.0


def set_network(context: LaunchContext) -> list[Action]:
    network = Network(LaunchConfiguration("network").perform(context))
    chosen = environment(network, os.environ)
    changed = [SetEnvironmentVariable(n, value) for n, value in chosen.items() if os.environ.get(n) != value]
    dropped = [UnsetEnvironmentVariable(name) for name in os.environ if name not in chosen]
    return [LogInfo(msg=network.meaning), *changed, *dropped]


def start_planner(context: LaunchContext) -> list[Node]:
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    config = values["config"] or str(Path(get_package_share_directory("llm_planner")) / "config" / "planner.yaml")
    overrides = {parameter: values[name] for name, parameter in PARAMETERS.items() if values[name]}
    if values["metrics_port"]:
        overrides["metrics_port"] = int(values["metrics_port"])
    planner = f"{values['namespace'].strip('/')}/{values['name']}".strip("/")
    dashboard = Node(
        package="llm_planner",
        executable="dashboard_node",
        parameters=[{"planner": f"/{planner}", "port": int(values["dashboard_port"])}],
        output="screen",
        emulate_tty=True,
    )
    return [
        *([dashboard] if values["dashboard"].lower() == "true" else []),
        Node(
            package="llm_planner",
            executable="planner_node",
            name=values["name"],
            namespace=values["namespace"],
            parameters=[config, overrides],
            output="screen",
            emulate_tty=True,
            respawn=True,
            respawn_delay=RESPAWN_DELAY_S,
            sigterm_timeout="6",  # the node needs up to five seconds to end its goals and the engine
        ),
    ]


def generate_launch_description() -> LaunchDescription:
    arguments = [
        DeclareLaunchArgument(n, default_value=v, description=d, choices=CHOICES.get(n))
        for n, (v, d) in ARGUMENTS.items()
    ]
    steps = [OpaqueFunction(function=set_network), OpaqueFunction(function=start_planner)]
    return LaunchDescription([*arguments, *steps])
