# SPDX-License-Identifier: Apache-2.0
"""``engine.profile: auto``: measured once, kept, found again, and measured again when it is of no use any more."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from llm_planner import assembly, engine_profile
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import cache_dir
from llm_planner.engine_profile import EngineAtHand, age, cached_profile, measured_profile
from llm_planner.prediction.execution_time import STALE_S, ProfiledTimes
from llm_planner.prediction.profile import find_profile, load_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.child import ChildServer
from llm_planner.serving.goal_book import GoalBook
from tests.prediction.virtual_engine import INFO, TRUTH, StepsInFlight, VirtualEngine, slower
from tests.serving.budget_run import Run, make_profile


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "llm_planner" / "profiles"


@pytest.fixture
def start(tmp_path, monkeypatch, caplog):
    """Returns what starts a planner with an engine as far as its profile."""
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    (model_dir / "config.json").write_text("{}")
    caplog.set_level(logging.INFO, "llm_planner")

    def start(engine=None, find=measured_profile, settings=None, num_adapters=0, **config):
        engine = engine or VirtualEngine()
        monkeypatch.setattr(engine_profile, "MonotonicClock", lambda: engine)
        caplog.clear()
        planner = PlannerConfig(engine=settings or EngineConfig(), **config)
        return find(EngineAtHand(planner, model_dir, engine, RobotLibrary(), num_adapters))

    start.model_dir = model_dir
    return start


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("make_engine", [VirtualEngine, StepsInFlight])
def test_the_first_start_measures_and_the_next_one_does_not(start, cache, caplog, make_engine):
    first = start(make_engine())
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "measuring how quick this machine is: up to about 10 s, once"
    assert said[1].startswith("measured how quick this machine is, in ")
    assert [first.path] == list(cache.iterdir()), "one file, and nothing temporary"
    engine = make_engine()
    again = start(engine)
    assert not engine.steps
    assert not caplog.records
    assert again == first
    assert again.profile.decode.base_s.value == pytest.approx(TRUTH.decode.base_s.value, rel=0.05)


def test_a_robot_model_that_cannot_be_used_does_not_keep_the_engine_from_being_measured(start, monkeypatch):
    names, get = RobotLibrary.names, RobotLibrary.get

    def refuse(library, name):
        if name == "aaa":
            raise PlannerError(ErrorCode.INVALID_ROBOT_MODEL, "broken")
        return get(library, name)

    monkeypatch.setattr(RobotLibrary, "names", lambda library: ["aaa", *names(library)])
    monkeypatch.setattr(RobotLibrary, "get", refuse)
    assert start() is not None


def test_a_command_that_shall_answer_soon_only_looks(start, cache):
    engine = VirtualEngine()
    assert start(engine, cached_profile) is None
    assert not engine.steps
    first = start()
    assert start(engine, cached_profile) == first


@pytest.mark.parametrize(
    "change",
    [
        {"engine": VirtualEngine(info=replace(INFO, device="another, 1 threads, float32"))},
        {"engine": VirtualEngine(info=replace(INFO, block_size=32))},
        {"scheduler": SchedulerConfig(max_num_batched_tokens=512)},
        {"settings": EngineConfig(lookahead="off")},
        {"settings": EngineConfig(nodes="10.0.0.1,10.0.0.2")},
        {"settings": EngineConfig(micro_batches="static")},
    ],
)
def test_another_engine_has_a_profile_of_its_own(start, cache, change):
    start()
    start(**change)
    assert len(list(cache.iterdir())) == 2


def test_adapters_slow_down_all_that_vllm_computes(start, cache):
    start()
    start(num_adapters=2)
    assert len(list(cache.iterdir())) == 1
    start(backend="vllm", num_adapters=2)
    assert len(list(cache.iterdir())) == 2


def test_other_weights_and_another_version_have_profiles_of_their_own(start, cache, monkeypatch):
    start()
    (start.model_dir / "model.safetensors").write_bytes(b"trained on")
    start()
    monkeypatch.setattr(engine_profile, "__version__", "99")
    start()
    assert len(list(cache.iterdir())) == 3


def test_what_memory_is_free_makes_no_difference(start, cache):
    first = start()
    assert start(VirtualEngine(info=replace(INFO, num_kv_blocks=900))) == first


@pytest.mark.parametrize("damage", ["", "{", "name: x\n", "decode: [\n"])
def test_a_damaged_file_is_measured_again_with_one_warning(start, caplog, damage):
    first = start()
    first.path.write_text(damage)
    again = start()
    assert len(warnings(caplog)) == 1
    assert again.profile == replace(first.profile, measured_at=again.profile.measured_at)
    assert load_profile(first.path) == again.profile


def test_a_cache_that_cannot_be_written_is_one_warning(start, cache, caplog):
    cache.parent.mkdir()
    cache.write_text("a file where the directory should be")
    own = start()
    assert own.profile.decode.base_s.value > 0
    (warning,) = warnings(caplog)
    assert "cannot be kept" in warning


def test_without_a_home_there_is_no_profile(start, caplog, monkeypatch):
    def no_home():
        raise RuntimeError("no home directory")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(engine_profile.Path, "home", no_home)
    assert cache_dir() is None
    assert start() is None
    assert "HOME" in warnings(caplog)[0]
    assert start(find=cached_profile) is None
    assert not warnings(caplog)


def test_a_relative_cache_directory_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setattr(engine_profile.Path, "home", lambda: tmp_path)
    assert cache_dir() == tmp_path / ".cache" / "llm_planner"


@pytest.mark.parametrize("engine", [VirtualEngine(slower(5000)), VirtualEngine(failing=4)])
def test_an_engine_that_cannot_be_measured_is_one_warning(start, cache, caplog, engine):
    assert start(engine) is None
    (warning,) = warnings(caplog)
    assert "time budgets learn from its steps" in warning
    assert not cache.exists()


def test_a_profile_that_is_off_for_minutes_is_measured_again_at_the_next_start(start, caplog):
    own = start()
    times, duration_s = ProfiledTimes(own.profile, own.discard), 2 * own.profile.decode.base_s.value
    caplog.clear()
    for _ in range(int(3 * STALE_S / duration_s)):
        times.observe([(1, 0)], duration_s)
    (warning,) = warnings(caplog)
    assert "2 times as long" in warning
    assert not own.path.exists()
    own.discard(2.0)  # another planner of this engine has found out too
    engine = VirtualEngine()
    assert start(engine).path == own.path
    assert engine.steps


def test_how_old_it_is():
    measured_at = datetime(2026, 1, 1, tzinfo=UTC)
    profile = replace(TRUTH, measured_at=measured_at.isoformat())
    ages = {"just now": 10, "5 minutes ago": 300, "3 hours ago": 10800, "4 days ago": 4 * 86400}
    for text, passed_s in ages.items():
        assert age(profile, measured_at + timedelta(seconds=passed_s)) == text


# --- What a planner makes of it


def times_of(profile, find, backend="torch"):
    config = PlannerConfig(backend=backend, engine=EngineConfig(profile=profile))
    known, _ = assembly.known_speed(config)
    return assembly._times(config, known, VirtualEngine(), RobotLibrary(), find, num_adapters=0)


def test_auto_is_what_was_measured_and_an_empty_text_still_learns_from_the_steps(start):
    own = start()
    assert times_of("auto", lambda _: own).profile == own.profile
    assert times_of("auto", lambda _: None) is None
    assert times_of("", lambda _: pytest.fail("nothing is measured")) is None
    named = times_of("planner-small-cpu", lambda _: pytest.fail("nothing is measured"))
    assert named.profile == find_profile("planner-small-cpu")


@pytest.mark.parametrize("backend", ["fake", "openai"])
def test_what_has_no_steps_of_its_own_is_not_measured(backend):
    assert PlannerConfig(backend=backend).engine.profile == "auto"
    assert times_of("auto", lambda _: pytest.fail("nothing is measured"), backend) is None


def test_only_the_first_child_of_a_server_measures(monkeypatch):
    server = assembly.build_server(PlannerConfig(backend="fake", replicas=2), GoalBook(None, print))
    assert isinstance(server, ChildServer)
    first, second = (replica._factories for replica in server._replicas)
    assert first.first.keywords["own_profile"] is measured_profile
    for factory in (first.later, second.first, second.later):
        assert factory.keywords["own_profile"] is cached_profile
    assert [factories.first.keywords["replica"] for factories in (first, second)] == [0, 1]


def test_with_what_was_measured_the_first_goal_gets_a_worst_case_and_eviction(start):
    truth = make_profile()
    own = start(VirtualEngine(truth, replace(INFO, model=truth.model, device=truth.device)))
    scene = "go " + "and see the cup " * 200  # some thousand tokens
    learning, measured = Run(times=False), Run(times=False)
    measured.loop._scheduler.times.engine = ProfiledTimes(own.profile)
    before, after = (run.submit("r1", scene, time_budget_s=0.35).go().result() for run in (learning, measured))
    assert (before.metrics.measures, before.metrics.wcet_s) == (("reserved_slot",), None)
    assert after.metrics.measures == ("reserved_slot", "eviction", "token_cap")
    assert 0 < after.metrics.eviction_ratio < 0.95
    assert after.metrics.response_time_s <= after.metrics.wcet_s <= 0.35
