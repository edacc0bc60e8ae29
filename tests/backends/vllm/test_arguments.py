# SPDX-License-Identifier: Apache-2.0
"""What vLLM is started with, and what its errors mean, with a fake in the place of vLLM."""

import dataclasses
import json
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Literal

import pytest

from llm_planner.assembly import vllm_settings
from llm_planner.backends.vllm import engine as vllm_engine
from llm_planner.backends.vllm.engine import EngineSettings, further_arguments, require_node, start_engine
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError

TOO_LONG = (
    "To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (3.00 GiB). Try increasing `gpu_memory_utilization` or decreasing "
    "`max_model_len` when initializing the engine."
)


@pytest.fixture
def long_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 2, "max_position_embeddings": 131_072}))
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """Returns a function that starts a fake vLLM and returns the arguments that it was given."""
    given = SimpleNamespace(arguments={}, is_cpu=False, error=None)

    def make(name, default):
        return (name, object, dataclasses.field(default=default))

    own = ("pipeline_parallel_size", "enforce_eager", "swap_space", "trust_remote_code", "async_scheduling")
    names = (*vllm_engine.DECIDED, *own, "kv_offloading_size")
    arguments_class = dataclasses.make_dataclass("EngineArgs", [make(name, None) for name in dict.fromkeys(names)])

    def create(self, headless=False):
        given.arguments = {k: v for k, v in vars(self).items() if v is not None}
        if given.error is not None:
            raise given.error
        return "configuration"

    arguments_class.create_engine_config = create
    platforms = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: given.is_cpu))
    for name, content in {
        "vllm": {},
        "vllm.platforms": vars(platforms),
        "vllm.engine": {},
        "vllm.config": {},
        "vllm.config.lora": {"MaxLoRARanks": Literal[1, 8, 16, 512]},
        "vllm.engine.arg_utils": {"EngineArgs": arguments_class},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(vllm_engine, "require_vllm", lambda: None)
    monkeypatch.setattr(vllm_engine, "require_hooks", lambda: None)
    monkeypatch.setattr(vllm_engine, "_start", lambda config: config)

    def start(settings, *, is_cpu=False, error=None):
        given.is_cpu, given.error = is_cpu, error
        start_engine(settings)
        return given.arguments

    return start


def test_a_long_context_is_fitted_to_the_memory(started, long_model):
    assert started(EngineSettings(model_dir=long_model))["max_model_len"] == -1
    assert started(EngineSettings(model_dir=long_model, max_model_len=8192))["max_model_len"] == 8192
    blocks = EngineSettings(model_dir=long_model, num_kv_blocks=64)
    assert started(blocks)["max_model_len"] == 64 * 16


def test_settings_of_deployments_reach_vllm(started, long_model):
    engine = EngineConfig(
        model=str(long_model),
        tensor_parallel=2,
        gpu_memory_utilization=0.8,
        quantization="awq",
        kv_cache_dtype="fp8",
        vllm_args='{"swap_space": 4}',
    )
    arguments = started(vllm_settings(PlannerConfig(backend="vllm", engine=engine)))
    assert {name: arguments[name] for name in ("tensor_parallel_size", "gpu_memory_utilization")} == {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.8,
    }
    assert (arguments["quantization"], arguments["kv_cache_dtype"], arguments["swap_space"]) == ("awq", "fp8", 4)


def test_what_is_not_set_is_left_to_vllm(started, long_model):
    assert not {"gpu_memory_utilization", "quantization"} & set(started(EngineSettings(model_dir=long_model)))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "JSON"),
        ("[1]", "mapping"),
        ('{"max_model_len": 5}', r"set engine\.max_model_len"),
        ('{"scheduler_cls": "x"}', "schedules the steps"),
    ],
)
def test_further_arguments_are_checked(text, named):
    with pytest.raises(PlannerError, match=named) as caught:
        further_arguments(text)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_an_argument_that_vllm_does_not_have_is_refused_with_the_nearest(started, long_model):
    with pytest.raises(PlannerError, match=r"'swap_spce'.*swap_space") as caught:
        started(EngineSettings(model_dir=long_model, further={"swap_spce": 4}))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_every_argument_that_we_give_is_closed_to_others(started, long_model):
    given = started(EngineSettings(model_dir=long_model, num_kv_blocks=9, gpu_memory_utilization=0.5, quantization="x"))
    assert {"enable_lora", "max_loras", "max_lora_rank"} <= set(vllm_engine.DECIDED)
    assert set(given) - {"enforce_eager"} <= set(vllm_engine.DECIDED)


def test_suspended_kv_goes_to_host_memory_on_a_gpu(started, long_model):
    settings = EngineSettings(model_dir=long_model, further=further_arguments('{"kv_offloading_size": 4}'))
    given = started(settings)
    assert given["kv_offloading_size"] == 4
    assert given["kv_transfer_config"] == {"kv_connector_extra_config": {"offload_prompt_only": False}}
    assert "kv_transfer_config" not in started(EngineSettings(model_dir=long_model))


def test_on_a_cpu_kv_is_in_host_memory_already(started, long_model):
    settings = EngineSettings(model_dir=long_model, further={"kv_offloading_size": 4})
    with pytest.raises(PlannerError, match=r"CPUOffloadingSpec\.get_worker.*raise engine\.num_kv_blocks") as caught:
        started(settings, is_cpu=True)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.fixture
def adapters(tmp_path):
    """Returns a function that makes adapters of given ranks."""

    def make(*ranks):
        for rank in ranks:
            directory = tmp_path / str(rank)
            directory.mkdir()
            config = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj"]}
            (directory / "adapter_config.json").write_text(json.dumps(config))
        return tuple(str(tmp_path / str(rank)) for rank in ranks)

    return make


def test_there_is_room_for_every_adapter(started, long_model, adapters, monkeypatch):
    loaded = []
    monkeypatch.setattr(vllm_engine, "_load_adapters", lambda engine, names: loaded.append((engine, names)))
    settings = EngineSettings(model_dir=long_model, adapters=adapters(4, 9), lookahead="always")
    given = started(settings, is_cpu=True)
    # vLLM 0.32 on a CPU needs a place that is empty.
    assert (given["enable_lora"], given["max_loras"], given["max_lora_rank"]) == (True, 3, 16)
    # vLLM 0.32 insists on a place in the step for a draft of each request.
    assert (given["max_num_scheduled_tokens"], given["max_num_batched_tokens"]) == (2048, 256 * 9)
    assert started(settings)["max_loras"] == 2
    plain = started(EngineSettings(model_dir=long_model, lookahead="always"), is_cpu=True)
    assert plain["max_num_batched_tokens"] == 2048
    assert "enable_lora" not in plain
    assert loaded == 2 * [("configuration", settings.adapters)]


def test_an_adapter_that_vllm_or_we_cannot_apply(started, long_model, adapters):
    with pytest.raises(PlannerError, match="rank 513, and vLLM takes at most 512") as caught:
        started(EngineSettings(model_dir=long_model, adapters=adapters(513)))
    assert caught.value.code is ErrorCode.UNSUPPORTED_ARCHITECTURE
    with pytest.raises(PlannerError, match=r"elsewhere has no adapter_config\.json") as caught:
        started(EngineSettings(model_dir=long_model, adapters=("/elsewhere",)))
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


def test_a_share_of_a_gpu_means_nothing_on_a_cpu(started, long_model):
    with pytest.raises(PlannerError, match=r"set engine\.num_kv_blocks"):
        started(EngineSettings(model_dir=long_model, gpu_memory_utilization=0.5), is_cpu=True)


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        (TOO_LONG, ErrorCode.OUT_OF_MEMORY, r"lower engine\.max_model_len"),
        ("No available memory for the cache blocks", ErrorCode.OUT_OF_MEMORY, r"raise engine\.gpu_memory_util"),
        (
            "Free memory on device cuda:0 (3.1/24.0 GiB) is less than desired GPU memory utilization (0.92)",
            ErrorCode.OUT_OF_MEMORY,
            "or lower it",
        ),
        ("gpu_memory_utilization must be below 1", ErrorCode.INVALID_CONFIG, r"change engine\.gpu_memory_utilization"),
        ("User-specified max_model_len (9) is greater", ErrorCode.INVALID_CONFIG, r"change engine\.max_model_len"),
        ("Unknown quantization method: x", ErrorCode.INVALID_CONFIG, r"change engine\.quantization"),
        ("Invalid kv_cache_dtype: x", ErrorCode.INVALID_CONFIG, r"change engine\.kv_cache_dtype"),
        ("divisible by tensor parallel size (3)", ErrorCode.INVALID_CONFIG, r"change engine\.tensor_parallel"),
    ],
)
def test_errors_name_the_setting_to_change(started, long_model, text, code, named):
    with pytest.raises(PlannerError, match=named) as caught:
        started(EngineSettings(model_dir=long_model), error=ValueError(text))
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("lookahead", "further", "is_cpu", "is_on"),
    [
        ("off", {}, True, False),
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"async_scheduling": False}, False, True),
        ("auto", {"async_scheduling": True}, True, False),
        ("always", {}, False, True),
        ("off", {"async_scheduling": True}, False, False),
    ],
)
def test_drafts_are_verified_where_no_steps_are_in_flight(
    started, long_model, caplog, lookahead, further, is_cpu, is_on
):
    settings = EngineSettings(model_dir=long_model, lookahead=lookahead, further=further)
    arguments = started(settings, is_cpu=is_cpu)
    assert ("speculative_config" in arguments) == is_on
    assert ("engine.lookahead" in caplog.text) == (lookahead == "auto" and not is_on)


def test_stages_on_several_machines(started, long_model, monkeypatch):
    shown = []
    monkeypatch.setattr(vllm_engine, "show_head", lambda *where: shown.append(where))
    monkeypatch.setattr(vllm_engine, "_join_by", shown.append)
    settings = EngineSettings(model_dir=long_model, pipeline_stages=2, nodes=("10.0.0.1", "10.0.0.2"), nodes_port=4000)
    arguments = started(settings)
    assert shown == ["10.0.0.1", ("10.0.0.1", 4000)]
    names = ("nnodes", "node_rank", "master_addr", "master_port", "distributed_executor_backend")
    assert [arguments[name] for name in names] == [2, 0, "10.0.0.1", 4001, "mp"]


@pytest.mark.parametrize(
    ("nodes", "node"), [(("10.0.0.1",), 0), (("10.0.0.1", "10.0.0.2", "10.0.0.3"), 0), (("10.0.0.1", "10.0.0.2"), 2)]
)
def test_machines_that_do_not_fit_the_stages_are_refused(long_model, nodes, node):
    settings = EngineSettings(model_dir=long_model, pipeline_stages=2, nodes=nodes)
    with pytest.raises(PlannerError, match="as many workers each") as caught:
        require_node(settings, node)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_adapters_on_several_machines_are_refused(started, long_model, adapters, monkeypatch):
    monkeypatch.setattr(vllm_engine, "_join_by", lambda address: address)
    settings = EngineSettings(model_dir=long_model, pipeline_stages=2, nodes=("a", "b"), adapters=adapters(8))
    with pytest.raises(PlannerError, match="adapters") as caught:
        started(settings)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_this_machine_must_have_the_address_that_it_is_said_to_have():
    pytest.importorskip("psutil")
    with pytest.raises(PlannerError, match="no such address"):
        vllm_engine._join_by("192.0.2.1")


def test_a_pipeline_yields_one_token_per_step(started, long_model, caplog):
    settings = EngineSettings(model_dir=long_model, lookahead="auto", pipeline_stages=2)
    assert "speculative_config" not in started(settings, is_cpu=True)
    assert "in a pipeline" in caplog.text


@pytest.mark.parametrize(
    ("setting", "named"),
    [({"further": {"async_scheduling": True}}, "async_scheduling"), ({"pipeline_stages": 2}, "pipeline_stages")],
)
def test_drafts_that_cannot_be_verified_are_refused(started, long_model, setting, named):
    with pytest.raises(PlannerError, match=rf"engine\.lookahead is 'forced'.*{named}") as caught:
        started(EngineSettings(model_dir=long_model, lookahead="forced", **setting))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_what_vllm_is_to_ask_for_drafts_is_there(started, long_model):
    path = started(EngineSettings(model_dir=long_model, lookahead="always"))["speculative_config"]["model"]
    module, _, name = path.rpartition(".")
    proposer = getattr(import_module(module), name)("configuration")
    proposer.load_model("model")
    assert proposer.propose([[1], [2, 3]], "tokens", slot_mappings=None) == [[], []]
