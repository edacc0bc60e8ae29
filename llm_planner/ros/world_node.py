# SPDX-License-Identifier: Apache-2.0
"""The physical world of a fleet as a node: it owns the state, steps MuJoCo, and publishes what ROS tools know.

    ros2 run llm_planner world_node --ros-args -p robots:="['drone_1:tello','arm_1:indy7']" -p world:=house

Robot nodes with ``driver:=mujoco`` connect to its port. ``clock`` tells the world's time, ``/tf`` where bodies are,
``joint_states`` and ``odom`` of each robot what their names say, and ``world/markers`` the scene for RViz. A kind of
message whose package is not installed is left out, and the log reports it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rclpy.node import Node
from rclpy.parameter import Parameter

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import setting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel
from llm_planner.ros import parameters, process
from llm_planner.ros.guard import guarded
from llm_planner.ros.steady import steady_timer
from llm_planner.ros.world_view import WorldView
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.server import WorldServer
from llm_planner.sim.physics.world_file import load_world_file

WORLD_PORT = 8870
CLOCK_LOG_PERIOD_S = 60.0
TWO_CLOCKS = (
    "another node publishes this world's clock too, so use_sim_time does not work; give this world a namespace, or "
    "remap its clock: `--ros-args -r clock:=NAME/clock`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """Parameters of the world."""

    robots: tuple[str, ...] = setting((), "The robots in it: NAME:MODEL for each.")
    robot_models: tuple[str, ...] = setting((), "Extra directories with robot models, searched first.")
    world: str = setting("", "Name of a bundled world, or a YAML file; empty for an empty stage for each robot.")
    port: int = setting(WORLD_PORT, "TCP port on loopback that drivers connect to.", minimum=0, maximum=65535)
    time_scale: float = setting(1.0, "How much faster than real time.", minimum=0.01, maximum=1000.0)
    wind_m_per_s: float = setting(0.3, "Standard deviation of the wind along x and along y.", minimum=0.0, maximum=10.0)
    seed: int = setting(0, "Seed of wind, latencies and drift.", minimum=0, maximum=2**31 - 1)
    pictures: str = setting("", "Directory that the drones' pictures are written to; empty for no pictures.")
    publish_hz: float = setting(20.0, "How often poses are published; 0 for never.", minimum=0.0, maximum=200.0)


class WorldNode(Node):
    """Steps the world and publishes it.

    Args:
        name: Node name.

    Attributes:
        failure: None; a world that runs goes on.
        port: Where drivers connect to.

    Raises:
        PlannerError: INVALID_CONFIG for parameters or a world that cannot be, DUPLICATE_NODE if the port is taken.
    """

    def __init__(self, name: str = "world", *, parameter_overrides: list[Parameter] | None = None) -> None:
        super().__init__(name, parameter_overrides=parameter_overrides)
        self.failure: PlannerError | None = None
        settings = parameters.declare(self, WorldSettings)
        models = _models(settings)
        world_file = load_world_file(settings.world) if settings.world else None
        world = build_fleet(models, world_file, wind_m_per_s=settings.wind_m_per_s, seed=settings.seed)
        world.pictures = Path(settings.pictures) if settings.pictures else None
        self._server = WorldServer(
            world, models, clock=MonotonicClock(), time_scale=settings.time_scale, port=settings.port
        )
        self._server.start()
        self.port = self._server.port
        self.get_logger().info(f"world of {', '.join(models) or 'no robot'} on port {self.port}")
        if settings.publish_hz > 0:
            self._view = WorldView(self, world, models)
            steady_timer(self, 1.0 / settings.publish_hz, guarded(self, self._publish, lambda *_: None))

    def end_goals(self) -> None:
        """Has none."""

    def close(self) -> None:
        """Stops the world and frees the node."""
        self._server.close()
        self.destroy_node()

    def _publish(self) -> None:
        with self._server.lock:
            messages = self._view.look()
        self._view.publish(messages)
        if self._view.shares_clock:
            self.get_logger().warning(TWO_CLOCKS, throttle_duration_sec=CLOCK_LOG_PERIOD_S)


def _models(settings: WorldSettings) -> dict[str, RobotModel]:
    library = RobotLibrary([Path(directory) for directory in settings.robot_models if directory])
    models: dict[str, RobotModel] = {}
    for entry in filter(None, settings.robots):
        name, _, model = entry.partition(":")
        if not name or not model or name in models:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"robots: {entry!r} is not NAME:MODEL with a name of its own")
        models[name] = library.get(model)
    return models


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the world; returns the exit status."""
    return process.run(WorldNode, arguments)


if __name__ == "__main__":
    sys.exit(main())
