# SPDX-License-Identifier: Apache-2.0
"""A whole run with a tiny model, as a user starts it."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.tests.training.length.builders import MAX_TOKENS, prompts, save_target, write_prompts
from llm_planner.assembly import build_loop
from llm_planner.checkpoints import build_length_predictor
from llm_planner.cli.main import app
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.resources import share_dir
from llm_planner.engine.length_config import load_length_config
from llm_planner_lab.simulation.serving import serve_all
from llm_planner_lab.training.length import boosting, collect


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return save_target(tmp_path_factory.mktemp("models") / "target")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return write_prompts(tmp_path_factory.mktemp("prompts") / "prompts.jsonl", prompts(40))


def train(target, asked, *more):
    options = ["--buckets", 100, "--max-tokens", MAX_TOKENS, "--max-input", 64, "--layers", 1, "--steps", 4]
    command = ["train-length-predictor", "--model", target, "--prompts", asked, "--json", *options, *more]
    return CliRunner().invoke(app, [str(word) for word in command])


@pytest.fixture(scope="module")
def trained(target, asked):
    done = train(target, asked)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def config(target, **fields):
    return PlannerConfig(engine=EngineConfig(model=str(target), device="cpu", num_kv_blocks=64), **fields)


def test_figures_name_the_predictor_and_its_baselines(trained):
    names = ["rlp", "rlp_bucket_end", "regression", "classes_5", "classes_10"]
    names += ["boosted_trees"] if boosting.is_installed() else []
    assert list(trained["rlp"]) == names
    assert all(set(errors) == {"mae", "rmse", "r2"} for errors in trained["rlp"].values())
    assert 0.0 <= trained["interval_coverage_90"] <= 1.0
    assert trained["num_prompts"] == {"train": 32, "calibration": 4, "test": 4}
    assert sum(group["num_prompts"] for group in trained["interval_90_by_prompt"]) == 4
    assert 0.0 <= trained["bound_99_9"] <= 1.0


def test_the_directory_tells_what_it_is(target, trained):
    made = target.with_name("target-length")
    assert json.loads((made / "figures.json").read_text()) == trained
    assert load_length_config(made).num_buckets == MAX_TOKENS  # never more than there are lengths
    assert "Response lengths of target" in (made / "README.md").read_text()
    assert (made / "tokenizer.json").read_bytes() == (target / "tokenizer.json").read_bytes()


def test_a_second_run_asks_the_model_nothing_and_trains_nothing(target, asked, trained, monkeypatch):
    monkeypatch.setattr(collect, "build_loop", None)
    monkeypatch.setattr("llm_planner_lab.training.length.trainer.LengthTrainer._learn", None)
    again = train(target, asked)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["rlp"] == trained["rlp"]


def test_the_planner_uses_the_predictor_of_its_model(target, trained):
    loop = build_loop(config(target), do_clients_report=False)
    try:
        request = PlanRequest(request_id="r", robot_id="r", robot_model="tello", instruction="go", max_tokens=20)
        asking = replace(request, request_id="b", robot_id="b", time_budget_s=60.0)
        result, hurried = serve_all(loop, [request, asking])
    finally:
        loop.close()
    assert result.metrics.predicted_output_tokens is None  # nothing is decided by it
    predicted = hurried.metrics.predicted_output_tokens
    assert predicted is not None
    assert 1 <= predicted <= 20


def test_prediction_can_be_turned_off(target, trained):
    assert build_length_predictor(config(target)) is not None
    assert build_length_predictor(config(target, length_predictor="")) is None


def test_a_predictor_of_another_model_is_refused_if_it_was_asked_for(target, tmp_path, trained):
    other = save_target(tmp_path / "other", seed=3)
    with pytest.raises(PlannerError, match="made for 'target', whose weights are not those of 'other'") as caught:
        build_length_predictor(config(other, length_predictor=str(target.with_name("target-length"))))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_predictor_that_was_outlived_by_its_model_is_left_out_loudly(target, tmp_path, trained, caplog):
    other = save_target(tmp_path / "other", seed=3)
    target.with_name("target-length").rename(tmp_path / "other-length")
    try:
        assert build_length_predictor(config(other)) is None
    finally:
        (tmp_path / "other-length").rename(target.with_name("target-length"))
    assert "whose weights are not those of 'other'" in caplog.text
    assert "train-length-predictor" in caplog.text


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--start-from", "no/such/model"], "no/such/model"),
        (["--layers", "9", "--start-from", "MODEL"], "9 were asked for"),
    ],
)
def test_bad_input_is_named(target, asked, trained, words, named):
    done = train(target, asked, *(str(target) if word == "MODEL" else word for word in words))
    assert done.exit_code == 1
    assert isinstance(done.exception, PlannerError)
    assert named in str(done.exception)


def test_prompts_may_name_robots_of_ones_own(target, tmp_path):
    robots = tmp_path / "robots"
    robots.mkdir()
    tello = (share_dir() / "robot_models" / "tello.yaml").read_text()
    (robots / "quad.yaml").write_text(tello.replace("name: tello", "name: quad", 1))
    path = write_prompts(tmp_path / "p.jsonl", [replace(prompt, robot="quad") for prompt in prompts(30)])
    more = ["--no-baselines", "--output", tmp_path / "out"]
    assert "'quad' is no robot model" in str(train(target, path, *more).exception)
    done = train(target, path, "--robot-models", robots, *more)
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["rlp"]) == ["rlp", "rlp_bucket_end"]


def test_a_bad_line_is_named_before_anything_is_loaded(target, tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "build_loop", None)
    path = write_prompts(tmp_path / "p.jsonl", prompts(40))
    path.write_text(path.read_text() + "{}\n")
    done = train(target, path)
    assert "line 41" in str(done.exception)
