# SPDX-License-Identifier: Apache-2.0
"""The table of settings and backends: every cell is what the code does, and the page shows the table."""

import dataclasses
from pathlib import Path

import pytest

from llm_planner import assembly
from llm_planner.assembly import build_loop, vllm_settings
from llm_planner.backends import support
from llm_planner.backends.support import ADAPTER, BACKENDS, LIMITS, REFUSED, WARNING, WORKS, require_support
from llm_planner.core.config import EngineConfig, OpenAIConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.scheduling.policies import make_policy, policy_names
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.serving.fake import FakeBackend

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backends.md"
CELLS = [(name, backend) for name in LIMITS for backend in BACKENDS]
NOT_PASSED_ON = {"engine.model", "engine.profile"}
"""Settings of the engine that every backend honours without being handed them by this name."""


def with_setting(backend, name, value, **more):
    *section, leaf = name.split(".")
    config = PlannerConfig(backend=backend, **more)
    if not section:
        return dataclasses.replace(config, **{leaf: value})
    return dataclasses.replace(
        config, **{section[0]: dataclasses.replace(getattr(config, section[0]), **{leaf: value})}
    )


@pytest.mark.parametrize(("name", "backend"), CELLS)
def test_a_cell_says_what_the_check_does(name, backend):
    limit = LIMITS[name]
    stages = {"engine": EngineConfig(pipeline_stages=2)} if name == "engine.micro_batches" and backend == "vllm" else {}
    asked = with_setting(backend, name, limit.example, **stages)
    warned = [text for text in require_support(PlannerConfig(backend=backend)) if text.startswith(f"{name} ")]
    if (cell := limit.answer(backend)) == WORKS:
        require_support(asked)
        assert not warned
        return
    assert len(warned) == (1 if cell.startswith(WARNING) else 0)
    if cell.endswith(WORKS):
        require_support(asked)
        return
    assert cell.endswith(REFUSED)
    with pytest.raises(PlannerError, match=f"{name} is {limit.example!r}, but backend {backend} ") as caught:
        require_support(asked)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.fixture
def handed_over(monkeypatch):
    """Returns what a configuration hands to a backend, without starting it."""
    handed = {}

    class StopError(Exception):
        """The backend would start now."""

    def take(*args, **kwargs):
        handed["args"], handed["kwargs"] = args, kwargs
        raise StopError

    monkeypatch.setattr("llm_planner.engine.backend.TorchBackend", take)
    monkeypatch.setattr("llm_planner.backends.openai.backend.OpenAIBackend", take)

    def run(config):
        if config.backend == "vllm":
            return repr(assembly.vllm_settings(config))
        with pytest.raises(StopError):
            build_loop(config)
        return repr({**handed, "kwargs": {k: v for k, v in handed["kwargs"].items() if k != "clock"}})

    return run


OTHERS = {"engine.device": "cpu", "engine.max_model_len": 512}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name",
    [f"engine.{f.name}" for f in dataclasses.fields(EngineConfig)]
    + [f"openai.{f.name}" for f in dataclasses.fields(OpenAIConfig)],
)
def test_a_backend_is_handed_what_it_honours(name, backend, handed_over):
    """What the table calls works reaches the backend; nothing else does."""
    limit = LIMITS.get(name)
    if name in NOT_PASSED_ON or (limit is None and backend == "openai"):
        pytest.skip("the model's directory, the profile, and the device of the length predictor")
    if limit is not None and limit.answer(backend) != WORKS:
        return
    stages = {"engine": EngineConfig(pipeline_stages=2)} if name == "engine.micro_batches" else {}
    example = OTHERS[name] if limit is None else limit.example
    before = handed_over(PlannerConfig(backend=backend, **stages))
    assert handed_over(with_setting(backend, name, example, **stages)) != before


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("backend", ["vllm", "openai"])
def test_memory_safe_policies_need_memory_that_is_known(policy, backend):
    config = with_setting(backend, "scheduler.policy", policy)
    if not isinstance(make_policy(policy), MemorySafe):
        require_support(config)
        return
    with pytest.raises(PlannerError, match="memory-safe policy decides nothing"):
        require_support(config)


def test_what_such_a_backend_does_anyway_may_be_asked_for():
    engine = EngineConfig(lookahead="off")
    assert not require_support(PlannerConfig(backend="vllm", engine=engine, min_confidence=0.0))


def test_micro_batches_need_stages():
    with pytest.raises(PlannerError, match="pipeline_stages is 1"):
        require_support(with_setting("vllm", "engine.micro_batches", "static"))


@pytest.mark.parametrize(
    ("name", "value"), [("scheduler.max_eviction_ratio", 0.5), ("engine.eviction_method", "streaming")]
)
def test_a_setting_of_evictions_that_a_model_cannot_have_gets_a_warning(name, value, monkeypatch, caplog):
    info = FakeBackend().info
    assert not support.warn_of_model(with_setting("torch", name, value), info)
    info = dataclasses.replace(info, can_evict=False)
    assert not support.warn_of_model(PlannerConfig(), info)
    assert not support.warn_of_model(with_setting("torch", "scheduler.max_eviction_ratio", 0.0), info)
    (text,) = support.warn_of_model(with_setting("torch", name, value), info)
    assert text.startswith(f"{name} is {value!r}, but backend torch cannot remove KV")
    monkeypatch.setattr(FakeBackend, "info", info)
    build_loop(with_setting("fake", name, value), rehearsed=["tello"]).close()
    assert f"{name} is {value!r}" in caplog.text


def test_a_planner_is_refused_before_anything_is_loaded_and_every_setting_is_named():
    config = PlannerConfig(backend="openai", engine=EngineConfig(num_threads=2, lookahead="always"))
    with pytest.raises(PlannerError, match=r"engine\.lookahead.*engine\.num_threads") as caught:
        build_loop(config)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.fixture
def adapted(tmp_path):
    """Returns a configuration with a Tello that has an adapter, and what it is loaded by."""
    text = (share_dir() / "robot_models" / "tello.yaml").read_text(encoding="utf-8")
    (tmp_path / "tello.yaml").write_text(f"adapter: mine\n{text}", encoding="utf-8")
    return lambda backend: PlannerConfig(backend=backend, robot_models=(str(tmp_path),)), str(tmp_path / "mine")


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cell_of_adapters_says_what_the_check_does(backend, adapted, handed_over, monkeypatch):
    make_config, directory = adapted
    if ADAPTER.answer(backend) == REFUSED:
        with pytest.raises(
            PlannerError, match=rf"robot model tello is '{directory}', but backend {backend} "
        ) as caught:
            build_loop(make_config(backend))
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        return
    assert ADAPTER.answer(backend) == WORKS
    if backend == "torch":
        assert f"'adapters': ('{directory}',)" in handed_over(make_config(backend))
        return
    opened = []
    monkeypatch.setitem(assembly._OPENERS, "vllm", lambda *args: opened.append(vllm_settings(*args)))
    with pytest.raises(AttributeError, match="tokenizer"):  # of no backend
        build_loop(make_config(backend))
    assert opened[0].adapters == (directory,)


def test_adapters_of_robots_that_no_goal_names_are_not_asked_for(adapted, monkeypatch):
    monkeypatch.setattr(assembly, "_openai", lambda *_: pytest.fail("the server is asked"))
    with pytest.raises(pytest.fail.Exception, match="the server is asked"):
        build_loop(adapted[0]("openai"), rehearsed=["indy7"])


def test_the_page_shows_the_table():
    assert support.table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "value"), [("openai.api_key_variable", "sk-4711"), ("openai.base_url", "http://[::1/v1?key=4711")]
)
def test_no_backend_repeats_what_may_be_a_key(backend, name, value):
    with pytest.raises(PlannerError, match=name) as caught:
        require_support(with_setting(backend, name, value))
    assert "4711" not in caught.value.message
