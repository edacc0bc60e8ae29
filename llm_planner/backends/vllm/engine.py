# SPDX-License-Identifier: Apache-2.0
"""Starts vLLM: settings of ours to settings of its own, and what can go wrong to numbered errors."""

import dataclasses
import difflib
import logging
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from llm_planner.backends.cluster.reach import show_head
from llm_planner.backends.vllm.contract import require_hooks, require_vllm
from llm_planner.backends.vllm.drafts import PROPOSER
from llm_planner.backends.vllm.pipeline import ready_pipeline
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, parse_json
from llm_planner.engine.adapter import read_adapter_config
from llm_planner.engine.drafting import MAX_DRAFT_TOKENS

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.engine.input_processor import InputProcessor

    from llm_planner.backends.vllm.scheduler_mixin import WatchedMixin

CPU_BLOCK_TOKENS = 32
"""vLLM's attention on CPUs takes blocks of a multiple of this many tokens."""

CPU_KV_BYTES = 1 << 30
"""Memory of the KV cache on a CPU unless the number of blocks is given: robots, ROS and weights live there too."""

_log = logging.getLogger(__name__)

_SCHEDULED = "the planner schedules the steps"
_ADAPTERS = "robot models name their adapters"
DECIDED = {
    "model": "set engine.model",
    "dtype": "set engine.dtype",
    "block_size": "set engine.block_size",
    "num_gpu_blocks_override": "set engine.num_kv_blocks",
    "kv_cache_memory_bytes": "set engine.num_kv_blocks",
    "max_model_len": "set engine.max_model_len",
    "max_num_batched_tokens": "set scheduler.max_num_batched_tokens",
    "max_num_scheduled_tokens": "set scheduler.max_num_batched_tokens",
    "max_num_seqs": "set max_queued",
    "pipeline_parallel_size": "set engine.pipeline_stages",
    "tensor_parallel_size": "set engine.tensor_parallel",
    "nnodes": "set engine.nodes",
    "node_rank": "set engine.nodes",
    "master_addr": "set engine.nodes",
    "master_port": "set engine.nodes_port",
    "distributed_executor_backend": "set engine.nodes",
    "gpu_memory_utilization": "set engine.gpu_memory_utilization",
    "quantization": "set engine.quantization",
    "kv_cache_dtype": "set engine.kv_cache_dtype",
    "scheduling_policy": "set scheduler.policy",
    "seed": "set seed",
    "scheduler_cls": _SCHEDULED,
    "enable_chunked_prefill": _SCHEDULED,
    "speculative_config": "set engine.lookahead",
    "enable_lora": _ADAPTERS,
    "max_loras": _ADAPTERS,
    "max_cpu_loras": _ADAPTERS,
    "max_lora_rank": _ADAPTERS,
    "lora_target_modules": _ADAPTERS,
    "data_parallel_size": "the planner asks one engine",
    "kv_transfer_config": "the planner takes KV from its own host alone: kv_offloading_size",
    "kv_offloading_backend": "the planner offloads by vLLM's own connector: kv_offloading_size",
    "enable_prefix_caching": "the static prompt prefix is shared by it",
    "structured_outputs_config": "the grammar of the robot's skills needs it",
    "disable_log_stats": "the planner has figures of its own",
    "use_tqdm_on_load": "the planner has a log of its own",
}
"""Engine arguments of vLLM that are not free, and what decides them."""

_SIGNS = (
    ("max_model_len", "engine.max_model_len"),
    ("gpu_memory_utilization", "engine.gpu_memory_utilization"),
    ("quantiz", "engine.quantization"),
    ("cache_dtype", "engine.kv_cache_dtype"),
    ("kv_cache", "engine.kv_cache_dtype"),
    ("tensor parallel", "engine.tensor_parallel"),
    ("tensor_parallel", "engine.tensor_parallel"),
    ("World size", "engine.tensor_parallel or engine.pipeline_stages"),
)
"""Words of vLLM's errors, and the setting that they are about."""

MAX_REASON = 400
"""Characters of vLLM's own words in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What vLLM is started with.

    Attributes:
        model_dir: Checkpoint directory.
        device: ``auto``, ``cpu`` or ``cuda``: which GPU, vLLM takes from CUDA_VISIBLE_DEVICES.
        dtype: ``auto`` (float32 on the CPU, the checkpoint's own elsewhere), float32, bfloat16 or float16.
        num_kv_blocks: 0 leaves the size of the KV cache to vLLM (on the CPU: ``CPU_KV_BYTES``).
        block_size: Tokens per block; on the CPU rounded up to a multiple of ``CPU_BLOCK_TOKENS``.
        num_threads: CPU threads; 0 leaves the library's default.
        max_num_batched_tokens: Most tokens of a step.
        max_live: Most requests that are unfinished at once, suspended ones included.
        pipeline_stages: Workers that hold a share of the layers each.
        nodes: Addresses of the machines that hold the stages, the head first; empty: this one alone.
        nodes_port: TCP port of the head at which they join; vLLM takes the next one.
        micro_batches: How work is divided among the micro-batches of a pipeline (``scheduling.pipeline.pacers``).
        max_model_len: Most tokens of a sequence; -1 takes what the KV cache holds, at most what the model takes.
        tensor_parallel: Devices that share each layer.
        gpu_memory_utilization: Share of a GPU's memory; 0 takes vLLM's default.
        quantization: Method; an empty string takes what the checkpoint says.
        kv_cache_dtype: ``auto`` takes the model's.
        lookahead: What a step may add to the one token that it yields (``engine.lookahead.Lookahead``); ``auto`` adds
            nothing where vLLM keeps steps in flight instead.
        adapters: Directories of the LoRA adapters that sequences may name.
        further: Other engine arguments of vLLM (``further_arguments``).
    """

    model_dir: Path
    device: str = "auto"
    dtype: str = "auto"
    num_kv_blocks: int = 0
    block_size: int = 16
    num_threads: int = 0
    max_num_batched_tokens: int = 2048
    max_live: int = 256
    pipeline_stages: int = 1
    nodes: tuple[str, ...] = ()
    nodes_port: int = 29510
    micro_batches: str = "balanced"
    max_model_len: int = -1
    tensor_parallel: int = 1
    gpu_memory_utilization: float = 0.0
    quantization: str = ""
    kv_cache_dtype: str = "auto"
    lookahead: str = "off"
    adapters: tuple[str, ...] = ()
    further: Mapping[str, Any] = field(default_factory=dict)


def further_arguments(text: str) -> Mapping[str, Any]:
    """Returns the mapping of ``engine.vllm_args``.

    Raises:
        PlannerError: INVALID_CONFIG if it is no mapping, or names what a setting or the planner decides.
    """
    try:
        arguments = parse_json(text) if text else {}
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.vllm_args {error}") from error
    if not isinstance(arguments, dict):
        message = "engine.vllm_args must be a JSON mapping of engine arguments of vLLM to their values"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    taken = [f"{name}: {DECIDED[name]}" for name in sorted(arguments) if name in DECIDED]
    if taken:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.vllm_args must not name {'; '.join(taken)}")
    return arguments


@dataclass(slots=True)
class Engine:
    """A running vLLM.

    Attributes:
        core: Its core, in this process.
        inputs: Checks requests and makes them what the core takes.
        scheduler: The core's scheduler: one of ours, unless a benchmark has put another one in its place.
        adapters: Those that are loaded, by their directories.
    """

    core: "EngineCore"
    inputs: "InputProcessor"
    scheduler: "WatchedMixin"
    adapters: Mapping[str, "LoRARequest"] = field(default_factory=dict)


def start_engine(settings: EngineSettings) -> Engine:
    """Returns vLLM with the model loaded.

    Raises:
        PlannerError: NOT_INSTALLED without vLLM, VERSION_MISMATCH with another one, INVALID_CONFIG for settings that it
            refuses; UNSUPPORTED_ARCHITECTURE, OUT_OF_MEMORY or CHECKPOINT_INVALID if it cannot run the model.
    """
    config = _engine_config(settings, 0)
    if settings.nodes:
        show_head(settings.nodes[0], settings.nodes_port)
    with _explained(settings):
        engine = _start(config)
    if settings.adapters:
        _load_adapters(engine, settings.adapters)
    return engine


def run_worker(settings: EngineSettings, node: int) -> None:
    """Runs the workers of a machine that is not the head, until they end: with the head, or by a failure.

    Args:
        settings: The head's.
        node: Place of this machine in ``settings.nodes``.

    Raises:
        PlannerError: As ``start_engine``.
    """
    config = _engine_config(settings, node)
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor

    with _explained(settings):
        executor = MultiprocExecutor(config, monitor_workers=False)
    executor.start_worker_monitor(inline=True)


def _engine_config(settings: EngineSettings, node: int) -> "VllmConfig":
    """Returns vLLM's configuration of one machine, after what must be said before vLLM is imported."""
    require_vllm()
    # Its core runs in this process, which is a child of the planner's already; must be said before vLLM is imported.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    if settings.num_threads:
        os.environ["OMP_NUM_THREADS"] = str(settings.num_threads)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # or vLLM takes a thread for each core
    if settings.nodes:
        _join_by(settings.nodes[node])
    # Its own deprecations, and that a CPU has no Triton, do not concern the user of a planner.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    require_hooks()
    from vllm.engine.arg_utils import EngineArgs

    _require_known(settings.further, [field.name for field in dataclasses.fields(EngineArgs)])
    arguments = _arguments(settings) | _node_arguments(settings, node)
    with _explained(settings):
        return EngineArgs(**arguments).create_engine_config(headless=node > 0)


def _join_by(address: str) -> None:
    """Has vLLM and its libraries reach other machines by the network of an address of this machine.

    Raises:
        PlannerError: INVALID_CONFIG if this machine does not have the address.
    """
    import psutil  # of vLLM

    networks = {a.address: name for name, addresses in psutil.net_if_addrs().items() for a in addresses}
    if address not in networks:
        message = (
            f"engine.nodes says that this machine is {address}, but it has no such address; start on the right one"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    os.environ["VLLM_HOST_IP"] = address
    for library in ("GLOO", "NCCL", "TP"):
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", networks[address])


def require_node(settings: EngineSettings, node: int) -> None:
    """Raises PlannerError INVALID_CONFIG if a machine cannot be one of those that hold the stages."""
    nodes = settings.nodes
    num_workers = settings.pipeline_stages * settings.tensor_parallel
    if len(nodes) < 2 or num_workers % len(nodes) or not 0 <= node < len(nodes):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"engine.nodes names {len(nodes)} machine(s) for {num_workers} workers (engine.pipeline_stages x "
            f"engine.tensor_parallel), and this is node {node}; name two or more that hold as many workers each",
        )


def _node_arguments(settings: EngineSettings, node: int) -> dict[str, Any]:
    """Returns what tells vLLM which machine of how many this is."""
    if not settings.nodes:
        return {}
    require_node(settings, node)
    if settings.adapters:
        message = "robot models name adapters, which workers of engine.nodes do not load: leave one of them out"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return {
        "nnodes": len(settings.nodes),
        "node_rank": node,
        "master_addr": settings.nodes[0],
        "master_port": settings.nodes_port + 1,
        "distributed_executor_backend": "mp",
    }


def _require_known(further: Mapping[str, Any], known: Collection[str]) -> None:
    for name in further:
        if name not in known:
            nearest = difflib.get_close_matches(name, known)
            hint = f"; near to it: {', '.join(nearest)}" if nearest else ""
            message = f"engine.vllm_args names {name!r}, which is no engine argument of this vLLM{hint}"
            raise PlannerError(ErrorCode.INVALID_CONFIG, message)


def _arguments(settings: EngineSettings) -> dict[str, Any]:
    from vllm.platforms import current_platform

    is_cpu = current_platform.is_cpu()
    if settings.device not in {"auto", "cpu" if is_cpu else "cuda"}:
        here = "cpu" if is_cpu else "cuda"
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"engine.device is {settings.device!r}, but this vLLM runs on {here}; set auto (and CUDA_VISIBLE_DEVICES)",
        )
    if is_cpu and settings.gpu_memory_utilization:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"engine.gpu_memory_utilization is {settings.gpu_memory_utilization:g}, but this vLLM runs on cpu; set "
            "engine.num_kv_blocks",
        )
    _require_layers(settings)
    block_size = -(-settings.block_size // CPU_BLOCK_TOKENS) * CPU_BLOCK_TOKENS if is_cpu else settings.block_size
    dtype = "float32" if is_cpu and settings.dtype == "auto" else settings.dtype
    arguments: dict[str, Any] = {
        "model": str(settings.model_dir),
        "dtype": dtype,
        "block_size": block_size,
        "max_num_seqs": settings.max_live,
        "max_num_batched_tokens": max(settings.max_num_batched_tokens, settings.max_live),  # or vLLM refuses both
        "max_num_scheduled_tokens": settings.max_num_batched_tokens,
        "pipeline_parallel_size": settings.pipeline_stages,
        "tensor_parallel_size": settings.tensor_parallel,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "max_model_len": settings.max_model_len,  # vLLM's -1: what the KV cache holds, at most what the model takes
        "enable_prefix_caching": True,
        "enforce_eager": is_cpu,  # compiling pays on GPUs; on a CPU it takes longer than it ever saves
        "scheduling_policy": "fcfs",  # the order of a step is ours
        "structured_outputs_config": {"backend": "guidance"},
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "seed": 0,
    }
    if settings.num_kv_blocks:
        arguments["num_gpu_blocks_override"] = settings.num_kv_blocks + 1  # one stands for "no block"
        if settings.max_model_len == -1:
            arguments["max_model_len"] = _max_model_len(settings, block_size)
    if settings.gpu_memory_utilization:
        arguments["gpu_memory_utilization"] = settings.gpu_memory_utilization
    if settings.quantization:
        arguments["quantization"] = settings.quantization
    if is_cpu:
        arguments["kv_cache_memory_bytes"] = CPU_KV_BYTES
    if _verifies_drafts(settings, is_cpu=is_cpu):
        arguments["speculative_config"] = {
            "method": "custom_class",
            "model": PROPOSER,
            "num_speculative_tokens": MAX_DRAFT_TOKENS,
        }
    arguments |= _offload_arguments(settings.further, is_cpu=is_cpu)
    if settings.adapters:
        arguments |= _adapter_arguments(settings, is_cpu=is_cpu, has_drafts="speculative_config" in arguments)
    return {**arguments, **settings.further}


def _offload_arguments(further: Mapping[str, Any], *, is_cpu: bool) -> dict[str, Any]:
    """Returns what has vLLM offload, if it is asked to, what suspended requests need: prompts and what they wrote.

    Raises:
        PlannerError: INVALID_CONFIG on a CPU.
    """
    if not further.get("kv_offloading_size"):
        return {}
    if is_cpu:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            "engine.vllm_args names kv_offloading_size, but this vLLM runs on cpu: it copies KV between a GPU and host "
            "memory, and has no worker for it elsewhere (CPUOffloadingSpec.get_worker, vllm/v1/kv_offload/cpu/spec.py)."
            " Its KV cache is in host memory already: raise engine.num_kv_blocks by as much instead",
        )
    return {"kv_transfer_config": {"kv_connector_extra_config": {"offload_prompt_only": False}}}


def _adapter_arguments(settings: EngineSettings, *, is_cpu: bool, has_drafts: bool) -> dict[str, Any]:
    """Returns what has vLLM keep room for adapters, whose configurations our own engine must understand, too."""
    from vllm.config.lora import MaxLoRARanks

    ranks = {directory: read_adapter_config(Path(directory)).rank for directory in settings.adapters}
    known, directory = get_args(MaxLoRARanks), max(ranks, key=lambda name: ranks[name])
    if ranks[directory] > max(known):
        message = f"adapter {directory} has rank {ranks[directory]}, and vLLM takes at most {max(known)}"
        raise PlannerError(ErrorCode.UNSUPPORTED_ARCHITECTURE, message)
    rank = min(rank for rank in known if rank >= ranks[directory])
    # vLLM 0.32 on a CPU adds what is in the last place to tokens without an adapter, if others of the step have one.
    arguments = {"enable_lora": True, "max_loras": len(ranks) + is_cpu, "max_lora_rank": rank}
    if has_drafts:  # vLLM insists on room for a draft of every request; a step is scheduled as long as ever
        room = settings.max_live * (1 + MAX_DRAFT_TOKENS)
        arguments["max_num_batched_tokens"] = max(settings.max_num_batched_tokens, room)
    return arguments


def _load_adapters(engine: Engine, adapters: Collection[str]) -> None:
    """Loads adapters, once and for all: vLLM has room for each."""
    from vllm.lora.request import LoRARequest

    requests = {name: LoRARequest(name, number, name) for number, name in enumerate(adapters, 1)}
    for name, request in requests.items():
        try:
            engine.core.add_lora(request)
        except Exception as error:
            engine.core.shutdown()
            text = " ".join(str(error).split())[:MAX_REASON] or repr(error)
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"vLLM cannot load the adapter {name}: {text}") from error
    engine.adapters = requests


def _verifies_drafts(settings: EngineSettings, *, is_cpu: bool) -> bool:
    """Returns whether steps verify drafts, which vLLM 0.32 does neither in a pipeline nor with steps in flight."""
    mode, in_flight = settings.lookahead, settings.further.get("async_scheduling")
    if in_flight is None:  # vLLM's choice is to have them on a GPU, unless there are drafts
        in_flight = mode == "auto" and not is_cpu
    if mode == "off" or not (in_flight or settings.pipeline_stages > 1):
        return mode != "off"
    where = "with steps in flight (async_scheduling)" if in_flight else "in a pipeline (engine.pipeline_stages)"
    if mode != "auto":
        message = f"engine.lookahead is {mode!r}, but vLLM verifies no drafts {where}: leave one of them out"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    _log.warning("engine.lookahead is 'auto', but vLLM verifies no drafts %s: each step yields one token", where)
    return False


def _require_layers(settings: EngineSettings) -> None:
    """Raises if a stage would have no layer."""
    from llm_planner.engine.model_config import read_json

    num_layers = read_json(settings.model_dir / "config.json").get("num_hidden_layers")
    if isinstance(num_layers, int) and settings.pipeline_stages > num_layers:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"engine.pipeline_stages is {settings.pipeline_stages}, but {settings.model_dir} has {num_layers} layers: "
            "use fewer stages",
        )


def _max_model_len(settings: EngineSettings, block_size: int) -> int:
    """Returns the longest sequence that the given blocks hold, at most what the model takes."""
    from llm_planner.engine.model_config import read_json

    limit = read_json(settings.model_dir / "config.json").get("max_position_embeddings")
    room = settings.num_kv_blocks * block_size
    return min(room, limit) if isinstance(limit, int) else room


def _start(config: "VllmConfig") -> Engine:
    from vllm.renderers import renderer_from_config
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.engine.input_processor import InputProcessor
    from vllm.v1.executor import Executor

    from llm_planner.backends.vllm import scheduler_mixin as ours
    from llm_planner.backends.vllm.grammars import share_grammars

    is_async = config.scheduler_config.async_scheduling
    config.scheduler_config.scheduler_cls = ours.RosterAsyncScheduler if is_async else ours.RosterScheduler
    core = EngineCore(config, Executor.get_class(config), log_stats=False)
    core.check_for_draft_tokens = False  # the workers have none (``drafts.NoDrafts``)
    share_grammars(core)
    if config.parallel_config.pipeline_parallel_size > 1:
        ready_pipeline(core)
    return Engine(
        core=core,
        inputs=InputProcessor(config, renderer_from_config(config)),
        scheduler=cast("WatchedMixin", core.scheduler),
    )


@contextmanager
def _explained(settings: EngineSettings) -> Iterator[None]:
    """Gives an error of vLLM, of whatever kind (its workers raise a plain ``Exception``), a number and a way out."""
    try:
        yield
    except PlannerError:
        raise
    except Exception as error:
        raise _explain(settings, error) from error


def _explain(settings: EngineSettings, error: Exception) -> PlannerError:
    """Returns what vLLM's error means, with what to do."""
    text = " ".join(str(error).split())[:MAX_REASON] or repr(error)
    if "architecture" in text or "not supported for now" in text:
        return PlannerError(
            ErrorCode.UNSUPPORTED_ARCHITECTURE,
            f"vLLM does not support the model {settings.model_dir}: {text}; take another one, or backend torch",
        )
    if "WorkerProc" in text:
        return PlannerError(
            ErrorCode.ENGINE_FAILED,
            f"a worker of vLLM has ended while it began with {settings.model_dir} ({text}); its own lines stand above; "
            "most often its memory is too small: lower engine.max_model_len",
        )
    if "less than desired" in text:
        return PlannerError(
            ErrorCode.OUT_OF_MEMORY,
            f"the memory that engine.gpu_memory_utilization wants is not free: {text}; end what else uses the GPU, or "
            "lower it",
        )
    if "memory" in text.lower().replace("gpu_memory_utilization", "") or "KV cache" in text:
        return PlannerError(
            ErrorCode.OUT_OF_MEMORY,
            f"vLLM has no room for {settings.model_dir}: {text}; lower engine.max_model_len, raise "
            "engine.gpu_memory_utilization or engine.tensor_parallel, set engine.quantization or engine.kv_cache_dtype "
            "to a smaller type, or take a smaller model",
        )
    for sign, name in _SIGNS:
        if sign in text:
            message = f"vLLM cannot run {settings.model_dir} so: {text}; change {name}"
            return PlannerError(ErrorCode.INVALID_CONFIG, message)
    return PlannerError(ErrorCode.CHECKPOINT_INVALID, f"vLLM cannot run {settings.model_dir}: {text}")
