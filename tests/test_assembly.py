# SPDX-License-Identifier: Apache-2.0
"""Configuration: what is accepted, and how a mistake is named."""

import dataclasses
from types import SimpleNamespace

import pytest

from llm_planner.assembly import build_engine, build_loop, replica_config, require_usable, torch_threads
from llm_planner.backends.openai.dialect import DIALECTS
from llm_planner.checkpoints import resolve_model, taught_verbs, trained_robot_models
from llm_planner.configuration import load_config, plain_parameters
from llm_planner.core.config import EngineConfig, OpenAIConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.resources import share_dir
from llm_planner.engine.eviction import eviction_method_names
from llm_planner.engine.hardware import _DTYPES
from llm_planner.engine.lookahead import MODES
from llm_planner.engine.model_config import ModelConfig
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.failure_context import ReplanContext
from llm_planner.scheduling.scheduler import BATCH_LIMITS
from llm_planner.serving.events import Finished
from tests.engine.builders import save_adapter

TURN = "turn left by 90 degrees"


def test_no_file_gives_the_defaults():
    assert load_config() == PlannerConfig()


def test_the_shipped_parameter_file_is_valid_and_holds_the_defaults():
    assert load_config(share_dir() / "config" / "planner.yaml") == PlannerConfig()


def test_names_that_a_setting_may_have_are_those_of_the_code():
    def names(cls, setting):
        (field,) = (field for field in dataclasses.fields(cls) if field.name == setting)
        return set(field.metadata["one_of"])

    assert names(SchedulerConfig, "batch_limit") == {*BATCH_LIMITS}
    assert names(EngineConfig, "lookahead") == {*MODES}
    assert names(EngineConfig, "eviction_method") == {*eviction_method_names()}
    assert names(EngineConfig, "dtype") == {"auto", *_DTYPES}
    assert names(OpenAIConfig, "server") == {"auto", *DIALECTS}
    assert names(PlannerConfig, "replan_context") == {context.value for context in ReplanContext}
    assert names(PlannerConfig, "chat_segments") == {unit.value for unit in ProseUnit}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scheduler: {batch_limit: maybe}", "scheduler.batch_limit: Input should be 'auto', 'on' or 'off'"),
        ("engine: {lookahead: far}", "engine.lookahead: Input should be 'auto', 'always', 'prompt', 'forced' or 'off'"),
        ("engine: {lookahead: on}", "engine.lookahead: Input should be 'auto', 'always', 'prompt', 'forced' or 'off'"),
        ("chat_segments: x", "chat_segments: Input should be 'sentence' or 'paragraph'"),
        ("scheduler: {max_num_seq: 8}", "scheduler.max_num_seq: there is no such setting; did you mean max_num_seqs?"),
        ("engin: {model: x}", "engin: there is no such setting; did you mean engine?"),
        ("colour: red", "colour: there is no such setting; docs/parameters.md has all"),
        ("robot_models: my_robots", r"robot_models: give a list: \[my_robots\]"),
        ("temperature: {}", "temperature: Input should be a valid number"),
        ("metrics_port: 99999", "metrics_port: Input should be less than or equal to 65535"),
        ("/**: {ros__parameters: {autostart: 7}}", "autostart: Input should be a valid boolean"),
        ("/**: {ros__parameters: {scheduler.polcy: pud}}", "scheduler.polcy: .* did you mean policy?"),
        ("/a: {ros__parameters: {seed: 1}}\nb: {c: {ros__parameters: {seed: 1}}}", "for /planner but for /a, /b/c;"),
    ],
)
def test_a_mistake_is_named_with_what_to_write_instead(tmp_path, text, words):
    path = tmp_path / "planner.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlannerError, match=words) as caught:
        load_config(path)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "text",
    [
        "engine: {lookahead: off}\nscheduler: {batch_limit: on}",
        "engine.lookahead: false\nscheduler.batch_limit: 'on'",
    ],
)
def test_on_and_off_are_names_although_yaml_reads_them_as_truth(tmp_path, text):
    (path := tmp_path / "planner.yaml").write_text(text, encoding="utf-8")
    config = load_config(path)
    assert (config.engine.lookahead, config.scheduler.batch_limit) == ("off", "on")
    assert plain_parameters(path) == {"engine.lookahead": "off", "scheduler.batch_limit": "on"}


SECTIONS = {
    "sections of every node and of this one": (
        """\
/**: {ros__parameters: {scheduler: {max_num_seqs: 4, policy: pud}}}
/planner: {ros__parameters: {scheduler: {policy: fcfs}}}
""",
        {"/planner": ("fcfs", 4)},
    ),
    "the last one wins": (
        """\
planner: {ros__parameters: {scheduler: {policy: fcfs}}}
/**: {ros__parameters: {scheduler.policy: pud}}
""",
        {"/planner": ("pud", 16), "/site/planner": ("pud", 16)},
    ),
    "of several planners": (
        """\
/planner_a: {ros__parameters: {scheduler: {policy: fcfs}}}
/planner_b: {ros__parameters: {scheduler.max_num_seqs: 4}}
""",
        {"/planner_a": ("fcfs", 16), "/planner_b": ("tardiness", 4)},
    ),
    "of a robot too": (
        """\
/*: {ros__parameters: {scheduler.policy: fcfs}}
drone_1: {ros__parameters: {robot_model: tello}}
""",
        {"/planner": ("fcfs", 16)},
    ),
    "in namespaces": (
        """\
/**/planner: {ros__parameters: {scheduler.policy: fcfs}}
site:
  planner: {ros__parameters: {scheduler.policy: pud}}
  "*": {ros__parameters: {scheduler.max_num_seqs: 4}}
""",
        {"/planner": ("fcfs", 16), "/site/planner": ("pud", 4), "/a/b/planner": ("fcfs", 16)},
    ),
}


@pytest.mark.parametrize(("text", "read"), SECTIONS.values(), ids=SECTIONS)
def test_a_parameter_file_of_ros_is_read_for_one_node(tmp_path, text, read):
    (path := tmp_path / "planner.yaml").write_text(text, encoding="utf-8")
    for node, expected in read.items():
        scheduler = load_config(path, node=node).scheduler
        assert (scheduler.policy, scheduler.max_num_seqs) == expected


@pytest.mark.ros
@pytest.mark.parametrize(("text", "read"), SECTIONS.values(), ids=SECTIONS)
def test_ros_reads_the_same_of_it(tmp_path, text, read):
    rclpy = pytest.importorskip("rclpy")
    (path := tmp_path / "planner.yaml").write_text(text, encoding="utf-8")
    arguments = ["--ros-args", "--params-file", f"{path}"]
    for full_name, expected in read.items():
        namespace, _, name = full_name.rpartition("/")
        context = rclpy.Context()
        rclpy.init(args=arguments, context=context)
        node = rclpy.create_node(name, namespace=namespace or "/", context=context, start_parameter_services=False)
        defaults = [("scheduler.policy", "tardiness"), ("scheduler.max_num_seqs", 16)]
        assert tuple(parameter.value for parameter in node.declare_parameters("", defaults)) == expected
        node.destroy_node()
        context.try_shutdown()


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "planner.yaml"
    path.write_text("scheduler: {policy: fcfs, max_num_seqs: 2}\nseed: 3\n", encoding="utf-8")
    config = load_config(path, {"scheduler.policy": "fcfs_stream"})
    assert (config.scheduler.policy, config.scheduler.max_num_seqs, config.seed) == ("fcfs_stream", 2, 3)


@pytest.mark.parametrize(
    ("text", "policy"),
    [("seed: 3", "fcfs"), ("scheduler: {policy: pud}", "pud"), ("scheduler: {max_num_seqs: 2}", "fcfs")],
)
def test_defaults_of_a_command_hold_where_the_file_says_nothing(tmp_path, text, policy):
    path = tmp_path / "planner.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_config(path, defaults={"scheduler.policy": "fcfs"}).scheduler.policy == policy
    assert (
        load_config(path, {"scheduler.policy": "a_l"}, defaults={"scheduler.policy": "fcfs"}).scheduler.policy == "a_l"
    )


def test_a_section_that_is_none_is_named_whatever_is_set_in_it(tmp_path):
    path = tmp_path / "planner.yaml"
    path.write_text("scheduler: 3", encoding="utf-8")
    for place in ({"overrides": {"scheduler.policy": "fcfs"}}, {"defaults": {"scheduler.policy": "fcfs"}}):
        with pytest.raises(PlannerError, match="scheduler") as caught:
            load_config(path, **place)
        assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sed: 3", "sed"),
        ("scheduler: {polcy: fcfs}", "scheduler.polcy"),
        ("seed: -1", "seed"),
        ("seed: nine", "seed"),
        ("temperature: .nan", "temperature"),
        ("engine: 3", "engine"),
        ("engine: {block_size: 0}", "engine.block_size"),
        ("[1, 2]", "list"),
        ("a: [", "YAML"),
    ],
)
def test_a_mistake_is_named_with_its_path(tmp_path, text, named):
    path = tmp_path / "planner.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlannerError, match=named) as caught:
        load_config(path)
    assert caught.value.code is (ErrorCode.INVALID_FILE if named in ("YAML", "list") else ErrorCode.INVALID_CONFIG)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"none\.yaml") as caught:
        load_config(tmp_path / "none.yaml")
    assert caught.value.code is ErrorCode.INVALID_FILE


def test_an_unknown_model_lists_the_bundled_ones():
    with pytest.raises(PlannerError, match="planner-small") as caught:
        resolve_model("no-such-model")
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


def config_of(directory):
    return PlannerConfig(engine=EngineConfig(model=str(directory)))


def test_the_card_of_a_checkpoint_says_for_which_robot_models_it_stands(tmp_path):
    assert trained_robot_models(PlannerConfig()) == {"tello", "indy7"}
    assert trained_robot_models(config_of(tmp_path)) is None
    (tmp_path / "planner.json").write_text('{"prompt_style": "instruct"}')
    assert trained_robot_models(config_of(tmp_path)) is None


@pytest.mark.parametrize("names", ['"tello"', "[1]", '[""]', "{}"])
def test_a_card_that_names_no_robot_models_properly_is_refused(tmp_path, names):
    (tmp_path / "planner.json").write_text(f'{{"robot_models": {names}}}')
    with pytest.raises(PlannerError, match="robot_models must be a list of names") as caught:
        trained_robot_models(config_of(tmp_path))
    assert caught.value.code is ErrorCode.CHECKPOINT_INVALID


def test_the_card_of_a_checkpoint_says_which_verbs_it_was_taught(tmp_path):
    assert {"photograph", "approach"} < taught_verbs(PlannerConfig())["tello"]
    assert taught_verbs(config_of(tmp_path)) == {}
    (tmp_path / "planner.json").write_text('{"verbs": {"indy7": "push take"}}')
    assert taught_verbs(config_of(tmp_path)) == {"indy7": {"push", "take"}}


@pytest.mark.parametrize("verbs", ['"push"', '{"tello": ["push"]}', "[]"])
def test_a_card_that_names_no_verbs_properly_is_refused(tmp_path, verbs):
    (tmp_path / "planner.json").write_text(f'{{"verbs": {verbs}}}')
    with pytest.raises(PlannerError, match="verbs must be an object with a text") as caught:
        taught_verbs(config_of(tmp_path))
    assert caught.value.code is ErrorCode.CHECKPOINT_INVALID


def test_only_robot_models_that_goals_will_name_are_rehearsed():
    def prefixes(rehearsed):
        found = set()

        def watch(backend):
            def execute(scheduled):
                found.update(sequence.prefix_id.split("/")[0] for sequence in scheduled.new)
                return backend.execute(scheduled)

            return SimpleNamespace(info=backend.info, execute=execute, close=backend.close)

        build_loop(PlannerConfig(backend="fake"), watch=watch, rehearsed=rehearsed).close()
        return found

    assert prefixes({"tello"}) == {"tello"}
    assert {"tello", "indy7"} <= prefixes(None)


@pytest.mark.parametrize("model", [None, "tello: [", "adapter: nowhere\n{}"])
def test_a_robot_model_that_the_checkpoint_does_not_know_needs_an_adapter(tmp_path, model):
    """One without is refused goal by goal, and does not keep the others from being served."""
    if model is not None:
        tello = (share_dir() / "robot_models" / "tello.yaml").read_text(encoding="utf-8")
        text = model.replace("{}", tello.replace("name: tello", "name: mine"))
        (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    config = PlannerConfig(robot_models=(str(tmp_path),), engine=EngineConfig(num_kv_blocks=64))
    if model is None or "adapter" not in model:
        build_loop(config).close()
        return
    with pytest.raises(PlannerError, match=rf"{tmp_path / 'nowhere'} has no adapter_config\.json") as caught:
        build_loop(config)
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


def test_a_robot_with_an_adapter_is_planned_for_next_to_one_without(tmp_path):
    tello = (share_dir() / "robot_models" / "tello.yaml").read_text(encoding="utf-8")
    for name in ("tello", "mine"):
        text = tello.replace("name: tello", f"name: {name}\nadapter: zero")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    save_adapter(tmp_path / "zero", resolve_model("planner-small"), lora_alpha=0)  # adds nothing
    loop = build_loop(PlannerConfig(robot_models=(str(tmp_path),), engine=EngineConfig(num_kv_blocks=400)))
    events = []
    for name, instruction in {"tello": TURN, "mine": TURN, "indy7": "open the gripper"}.items():
        request = PlanRequest(request_id=name, robot_id=name, robot_model=name, instruction=instruction, plan_only=True)
        events += loop.submit(request, 0.0)
    while loop.next_wakeup_s(0.0) is not None:
        events += loop.step(0.0)
    loop.close()
    ends = {event.request_id: event.result for event in events if isinstance(event, Finished)}
    assert {name: end.candidates for name, end in ends.items()} == {
        "tello": ("tu(90);",),
        "mine": ("tu(90);",),
        "indy7": ("open();",),
    }


def test_the_engine_that_is_measured_is_the_one_that_serves(monkeypatch):
    monkeypatch.setattr("llm_planner.engine.backend.TorchBackend", lambda _, **settings: settings)
    chosen = {"eviction_method": "streaming", "lookahead": "forced", "block_size": 32}
    assert build_engine(PlannerConfig(engine=EngineConfig(**chosen))).items() >= chosen.items()


def test_the_profile_of_another_engine_is_refused_by_name():
    with pytest.raises(PlannerError, match=r"Llama-3-8B-float16.*'fake'") as caught:
        build_loop(load_config(overrides={"backend": "fake", "engine.profile": "llama3-8b-rtx4090"}))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(PlannerError, match=r"known are .*llama3-8b-rtx4090"):
        build_loop(load_config(overrides={"backend": "fake", "engine.profile": "none"}))


@pytest.mark.parametrize("overrides", [{"backend": "quantum"}, {"scheduler.policy": "lottery", "backend": "fake"}])
def test_unknown_names_list_the_known_ones(overrides):
    with pytest.raises(PlannerError, match="known are") as caught:
        build_loop(load_config(overrides=overrides))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("engine", "backend", "named"),
    [
        (EngineConfig(pipeline_stages=2), "torch", "backend: vllm"),
        (EngineConfig(micro_batches="best"), "vllm", "balanced"),
    ],
)
def test_a_pipeline_that_cannot_be(engine, backend, named):
    with pytest.raises(PlannerError, match=named) as caught:
        build_loop(PlannerConfig(backend=backend, engine=engine))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_each_replica_has_its_device_and_its_server():
    engine, openai = EngineConfig(device="cuda:0, cuda:1"), OpenAIConfig(base_url="http://a:1/v1,http://b:1/v1")
    config = PlannerConfig(replicas=2, engine=engine, openai=openai)
    parts = [replica_config(config, number) for number in range(2)]
    assert [part.engine.device for part in parts] == ["cuda:0", "cuda:1"]
    assert [part.openai.base_url for part in parts] == ["http://a:1/v1", "http://b:1/v1"]
    assert [part.engine.num_threads for part in parts] == [0, 0]


@pytest.mark.parametrize(
    ("replicas", "device", "asked", "threads"),
    [(1, "auto", 0, 0), (2, "auto", 0, 3), (2, "auto", 2, 2), (20, "cpu", 0, 1), (2, "cuda:0", 0, 0)],
)
def test_replicas_of_a_large_model_share_the_cores(monkeypatch, replicas, device, asked, threads):
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    monkeypatch.setattr(ModelConfig, "is_large", True)
    config = PlannerConfig(replicas=replicas, engine=EngineConfig(device=device, num_threads=asked))
    assert torch_threads(config) == threads


def test_a_small_model_has_one_thread_unless_told_otherwise():
    assert torch_threads(PlannerConfig()) == torch_threads(PlannerConfig(replicas=2)) == 1
    assert torch_threads(PlannerConfig(engine=EngineConfig(num_threads=2))) == 2


@pytest.mark.parametrize(
    "config",
    [
        PlannerConfig(replicas=3, engine=EngineConfig(device="cuda:0,cuda:1")),
        PlannerConfig(engine=EngineConfig(device="cuda:0,cuda:1")),
        PlannerConfig(
            backend="openai", replicas=2, openai=OpenAIConfig(base_url="http://a/v1,http://b/v1,http://c/v1")
        ),
    ],
)
def test_devices_or_servers_that_are_not_one_for_each_replica_are_refused(config):
    with pytest.raises(PlannerError, match="one for all, or one for each") as caught:
        require_usable(config)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_replicas_do_not_share_the_machines_of_one_engine():
    engine = EngineConfig(nodes="10.0.0.1,10.0.0.2", pipeline_stages=2)
    with pytest.raises(PlannerError, match="hold one engine"):
        require_usable(PlannerConfig(backend="vllm", replicas=2, engine=engine))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "backend: vllm\ntemperature: 1\nengine: {num_threads: 1}\nrobot_models: [a]\n",
            {"backend": "vllm", "temperature": 1.0, "engine.num_threads": 1, "robot_models": ["a"]},
        ),
        ("engine.num_threads: 1\nengine: {block_size: 8}", {"engine.num_threads": 1, "engine.block_size": 8}),
        (
            "metrics_port: 9400\nmetrics_host: 0.0.0.0\nclient_timeout_s: 9\nautostart: false\nseed: 1",
            {
                "metrics_port": 9400,
                "metrics_host": "0.0.0.0",
                "client_timeout_s": 9.0,
                "autostart": False,
                "seed": 1,
            },
        ),
    ],
)
def test_a_plain_file_becomes_parameters_of_a_node(tmp_path, text, expected):
    (path := tmp_path / "planner.yaml").write_text(text, encoding="utf-8")
    assert {name: repr(value) for name, value in plain_parameters(path).items()} == {
        name: repr(value) for name, value in expected.items()
    }


def test_a_parameter_file_of_ros_or_an_empty_one_becomes_none(tmp_path):
    path = tmp_path / "planner.yaml"
    path.write_text("", encoding="utf-8")
    assert plain_parameters(path) == {}
    assert plain_parameters(share_dir() / "config" / "planner.yaml") == {}
