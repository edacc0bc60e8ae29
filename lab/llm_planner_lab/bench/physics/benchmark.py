# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench physics``: success by family with and without bodies, and the real-time factor of a fleet."""

import random
import time
from collections.abc import Callable
from typing import Any

from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.demo.goal_tests import is_achieved, judge
from llm_planner.robots.executor import SegmentExecutor
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import ObjectRole, World, WorldObject
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.port import LocalPort
from llm_planner_lab.bench.physics.execution import execute_with_body
from llm_planner_lab.checkout import commit
from llm_planner_lab.tasks.arranged import arranged
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, sample

DIFFICULTY = Difficulty(max_clauses=3, max_objects=10, invented=0.0, noise=0.0)
BUSY = {"drone": "20{mf(100);tc(90);}", "arm": "20{move_to(left_area);move_to(right_area);}"}
TICK_S = 0.02


def run_physics(
    *, tasks_per_family: int, drones: int, arms: int, seconds: float, on_progress: Callable[[str, float], None]
) -> dict[str, Any]:
    """Returns the document.

    Args:
        tasks_per_family: Held-out tasks of each family; their reference plans are carried out.
        drones: Of the fleet whose speed is measured.
        arms: Likewise.
        seconds: Of virtual time that are measured.
        on_progress: Receives what is being done, and which share of it is done.
    """
    rows = []
    for number, family in enumerate(FAMILY_NAMES):
        on_progress(f"family {family}", number / (len(FAMILY_NAMES) + 1))
        rows.append(_family(family, tasks_per_family))
    on_progress("speed of a fleet", len(FAMILY_NAMES) / (len(FAMILY_NAMES) + 1))
    return {
        "setup": {"tasks_per_family": tasks_per_family, "commit": commit()},
        "families": rows,
        "speed": measure_speed(drones, arms, seconds),
    }


def _family(family: str, num_tasks: int) -> dict[str, Any]:
    library, kinematic, physical, reasons = RobotLibrary(), 0, 0, []
    for seed in range(num_tasks):
        task = arranged(sample(random.Random(f"physics/{family}/{seed}"), DIFFICULTY, held_out=True, family=family))
        model = library.get(task.robot)
        kinematic += is_achieved(task, task.plan, model)[0]
        passed, reason = judge(task, execute_with_body(task, task.plan, model, seed=seed), model)
        physical += passed
        if not passed:
            reasons.append({"seed": seed, "plan": task.plan, "reason": reason})
    return {"family": family, "tasks": num_tasks, "kinematic": kinematic, "physical": physical, "failed": reasons}


def measure_speed(drones: int, arms: int, seconds: float) -> dict[str, Any]:
    """Returns how much faster than real time a busy fleet lives in one process: drivers, executors and physics."""
    library = RobotLibrary()
    names = {f"drone_{n}": "tello" for n in range(drones)} | {f"arm_{n}": "indy7" for n in range(arms)}
    models = {name: library.get(model) for name, model in names.items()}
    world = build_fleet(models, None)
    executors = []
    for name, model in models.items():
        kind = name.partition("_")[0]
        connection = PhysicsConnection(model, LocalPort(world, name, model))
        driver = connection.enter(World(_things() if kind == "arm" else ()), None, 0.0)
        executor = SegmentExecutor(model, driver, lambda _: None)
        executor.begin(name, 0.0)
        executor.add(name, Segment(index=0, text=BUSY[kind], calls=(), expected=ZERO_DURATION), 0.0)
        executors.append(executor)
    begun_s, cpu_s, wall_s = world.time_s, time.process_time(), time.perf_counter()
    for tick in range(1, int(seconds / TICK_S) + 1):
        for executor in executors:
            executor.tick(tick * TICK_S)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    lived_s = world.time_s - begun_s
    return {
        "drones": drones,
        "arms": arms,
        "virtual_s": round(lived_s, 3),
        "cpu_factor": round(lived_s / cpu_s, 2),
        "wall_factor": round(lived_s / wall_s, 2),
    }


def _things() -> list[WorldObject]:
    sides = {"left_area": 0.4, "right_area": -0.4}
    areas = [
        WorldObject(name=name, role=ObjectRole.AREA, position_m=(0.4, y, 0.0), size_m=(0.2, 0.2, 0.0), is_fixed=True)
        for name, y in sides.items()
    ]
    return [*areas, *(WorldObject(name=f"box_{n}", position_m=(0.5, 0.1 * n - 0.2, 0.025)) for n in range(5))]
