# SPDX-License-Identifier: Apache-2.0
"""Plans of the bundled weights: recorded again whenever the model is trained again."""

from pathlib import Path

from llm_planner.assembly import build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig
from tests.golden.recorded import check
from tests.serving.loop_run import Run

RECORD = Path(__file__).with_name("bundled.json")
ORDERS = (
    ("tello", "Look for the cat", ""),
    ("tello", "fly 2 m forward, then turn right", ""),
    ("tello", "Check for keys or wallets", "bag_1, table_2"),
    ("tello", "A person is walking toward you from the left", "person_1"),
    ("indy7", "stack the boxes red, blue and green", "blue_box, red_box, green_box"),
    ("indy7", "put the apple into the bin", "apple, bin"),
)


def test_plans_are_as_recorded():
    loop = build_loop(PlannerConfig(engine=EngineConfig(num_threads=1)))
    run = Run(loop)
    for number, (robot, instruction, scene) in enumerate(ORDERS):
        run.submit(f"r{number}", instruction, robot_model=robot, scene=scene)
    run.go()
    results = {}
    for number, (robot, instruction, _) in enumerate(ORDERS):
        result = run.result(f"r{number}")
        results[f"{robot}: {instruction}"] = [result.error_code, result.plan, result.metrics.num_output_tokens]
    loop.close()
    check(RECORD, results)
