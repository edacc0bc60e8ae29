# SPDX-License-Identifier: Apache-2.0
"""A new robot is a YAML file and no code: the one in the docs is loaded, estimated and driven."""

import random
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from llm_planner.assembly import build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.safety.harm import harm_of
from llm_planner.robots.dodge import straight_motions
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.timing import Travel
from llm_planner.robots.world import World, WorldObject
from llm_planner.serving.events import Finished
from llm_planner.sim.kinematics import KinematicDriver
from tests.engine.builders import byte_level_tokenizer, save_model
from tests.robots.builders import segment
from tests.serving.builders import make_request

PAGE = Path(__file__).parents[2] / "docs" / "first_robot.md"


@pytest.fixture
def rover(tmp_path):
    (yaml,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "rover.yaml").write_text(yaml, encoding="utf-8")
    library = RobotLibrary([tmp_path])
    assert "rover" in library.names()
    return library.get("rover")


def driver(rover):
    return KinematicDriver(rover, World([WorldObject(name="ball", position_m=(2.0, 0.0, 0.1))]), random.Random(0))


def test_its_durations_are_estimated(rover):
    assert expected_duration(rover, parse("forward(100);")).p50_s == pytest.approx(0.1 + 1 / 0.4 + 0.4 / 0.5)
    assert expected_duration(rover, parse("2{left(90);}")).p90_s == pytest.approx(2 * (0.1 + 90 / 45 + 45 / 90))


def test_it_drives_in_the_kinematic_world(rover):
    body = driver(rover)
    outcome = run_plan(parse("?see(ball){drive(100);left(90);forward(50);say('done');}"), body)
    assert outcome.is_success
    assert outcome.duration_s == pytest.approx(0.05 + 3.4 + 2.6 + 2.15 + 0.05)
    pose = body.state.pose
    assert (pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg) == pytest.approx((1.0, 0.5, 0.0, 90.0))
    assert body.state.said == ["done"]


def test_its_geofence_holds(rover):
    outcome = run_plan(parse("forward(300);forward(300);"), driver(rover))
    assert outcome.reason == "forward: would leave the geofence at (6.00, 0.00, 0.00) m"


def test_it_executes_segments(rover):
    reports = []
    executor = SegmentExecutor(rover, driver(rover), reports.append)
    executor.begin("goal", 0.0)
    executor.add("goal", segment(0, "forward(100);"), 0.0)
    executor.expect("goal", 1, 0.0)
    for tick in range(80):
        executor.tick(tick * 0.05)
    assert [r.status for r in reports] == [ReportStatus.STARTED, ReportStatus.SUCCEEDED]
    assert executor.state is ExecutorState.DONE


@pytest.mark.parametrize("name", ["tello", "indy7"])
def test_the_examples_of_bundled_models_are_canonical_plans_of_known_skills(name):
    model = RobotLibrary().get(name)
    for example in model.examples:
        plan = parse(example.plan)
        assert to_text(plan) == example.plan
        names = set(re.findall(r"([a-z_]+)\(", re.sub(r"'[^']*'", "", example.plan))) - {"fail", "unclear"}
        assert all(model.skill(spelling) for spelling in names)


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def drive(tmp_path, model, max_tokens):
    """Returns how a planner with this model answers an instruction to the robot of the page."""
    engine = EngineConfig(model=str(model), dtype="float32", device="cpu", num_threads=1)
    loop = build_loop(PlannerConfig(engine=engine, robot_models=(str(tmp_path),)), do_clients_report=False)
    request = make_request("r1", "drive 1 m forward", robot_model="rover", max_tokens=max_tokens)
    with closing(loop):
        events, now_s = loop.submit(request, 0.0), 0.0
        while not (events and isinstance(events[-1], Finished)):
            now_s = loop.next_wakeup_s(now_s)
            events += loop.step(now_s)
    return events[-1].result


@pytest.mark.usefixtures("rover")
def test_the_bundled_model_refuses_it(tmp_path):
    result = drive(tmp_path, "planner-small", max_tokens=64)
    assert (result.error_code, result.plan) == (ErrorCode.UNTRAINED_ROBOT_MODEL, "")


@pytest.mark.usefixtures("rover")
def test_a_chat_checkpoint_writes_plans_for_it(tmp_path):
    """One with random weights: what it writes means nothing, but the grammar keeps it to the rover's skills."""
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(save_model(model := tmp_path / "chat", max_position_embeddings=16384))
    result = drive(tmp_path, model, max_tokens=16)
    assert result.error_code is not ErrorCode.UNTRAINED_ROBOT_MODEL
    assert result.metrics.num_output_tokens > 0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("type: identifier", "type: text", "takes things by their names: type identifier, not text"),
        ("z_m: [0.0, 0.0]", "z_m: [0.1, 1.0]", "the start pose is outside the geofence"),
    ],
)
def test_a_file_by_which_gate_and_driver_would_disagree_is_refused(rover, tmp_path, old, new, problem):
    path = tmp_path / "rover.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(PlannerError, match=problem):
        RobotLibrary([tmp_path]).get("rover")


def test_a_motion_whose_argument_tells_how_far_has_no_travel(rover):
    forward = rover.skills["forward"]
    travel = Travel(minimum=0.0, p50=0.5, p90=1.0, source="assumed")
    with pytest.raises(ValueError, match="tells how far it goes by its argument; leave travel out"):
        replace(forward, duration=replace(forward.duration, travel=travel))


def test_a_dodge_in_whole_metres_is_a_whole_metre_or_none(rover):
    forward = rover.skills["forward"]
    number = replace(forward.arguments[0], minimum=0.0, maximum=3.0, is_integer=True, unit="m")
    whole = replace(forward, arguments=(number,), effect=replace(forward.effect, unit_m=1.0))
    model = replace(rover, skills={**rover.skills, "forward": whole})
    assert [call for call, *_ in straight_motions(model, Pose(), 0.8, ()) if call.name == "forward"] == []
    assert SkillCall("forward", (1.0,)) in [call for call, *_ in straight_motions(model, Pose(), 1.4, ())]


@pytest.mark.parametrize(
    "request_", ["run over the dog", "ram the child", "crash into the people", "chase the cat", "drive into the crowd"]
)
def test_it_is_kept_from_people_as_a_drone_is(rover, request_):
    assert harm_of(request_, rover)
