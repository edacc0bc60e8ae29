# SPDX-License-Identifier: Apache-2.0
"""Configuration -> objects: the only place that knows which class serves which name."""

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from llm_planner.backends.support import BACKENDS, require_adapters, require_support, warn_of_model
from llm_planner.checkpoints import (
    OWN_PREDICTOR,
    build_length_predictor,
    build_prompt_encoder,
    min_confidence,
    planner_model,
    prompt_encoder,
    resolve_model,
    taught_verbs,
    trained_robot_models,
)
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.garbage import without_collections
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import SamplingParams
from llm_planner.engine_profile import (
    MEASURED_BACKENDS,
    EngineAtHand,
    FindProfile,
    cached_profile,
    measured_profile,
    no_profile,
)
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.failure_context import ReplanContext
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.prompt import PromptStyle
from llm_planner.prediction.execution_time import ProfiledTimes, check_fits
from llm_planner.prediction.length import LengthPredictor
from llm_planner.prediction.profile import AUTO, EngineProfile
from llm_planner.prediction.throughput.estimated import known_speed
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.pipeline.pacers import require_pacer
from llm_planner.scheduling.policies import decides_by_lengths, make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.scheduling.step_times import ENOUGH_STEPS
from llm_planner.serving.admission import Admission
from llm_planner.serving.chat_preparer import ChatPreparer
from llm_planner.serving.child import ChildServer
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.length_preparer import LengthPreparer
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer, is_trained_for
from llm_planner.serving.preparation import Preparer
from llm_planner.serving.prompt_encoder import PromptEncoder
from llm_planner.serving.replica import Factories
from llm_planner.serving.server import PlanServer

if TYPE_CHECKING:
    from llm_planner.backends.vllm.backend import VllmBackend
    from llm_planner.backends.vllm.engine import EngineSettings
    from llm_planner.engine.backend import TorchBackend

_log = logging.getLogger(__name__)
REHEARSED = "look around, take a picture of everything that you see, then come back"
"""What the model writes once at the start, for no client: a few steps from which the scheduler learns their times."""


def build_library(config: PlannerConfig) -> RobotLibrary:
    """Returns the robot models that a planner of this configuration knows."""
    return RobotLibrary([Path(directory).expanduser() for directory in config.robot_models])


def build_admission(config: PlannerConfig) -> Admission:
    """Returns what checks requests at admission."""
    return Admission(config, build_library(config).names())


def require_usable(config: PlannerConfig) -> None:
    """Refuses a configuration that no planner can have, as far as that can be said without loading the model.

    Raises:
        PlannerError: INVALID_CONFIG or MODEL_NOT_FOUND, naming what there is.
    """
    build_library(config)
    replicas = [replica_config(config, number) for number in range(config.replicas)]
    make_policy(config.scheduler.policy)
    known_speed(config)
    if config.backend not in (*BACKENDS, "fake"):
        known = ", ".join((*BACKENDS, "fake"))
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no backend {config.backend!r}; known are {known}")
    for replica in replicas:
        require_support(replica)
    if config.backend != "fake":
        planner_model(config)


@without_collections()
def build_loop(
    config: PlannerConfig,
    *,
    do_clients_report: bool = True,
    watch: Callable[[Backend], Backend] | None = None,
    limits: SchedulerConfig | None = None,
    own_profile: FindProfile = no_profile,
    rehearsed: Collection[str] | None = None,
    replica: int = 0,
) -> PlannerLoop:
    """Returns a loop that is ready to plan: model loaded, prompts prefilled, grammars compiled.

    Args:
        config: Of the planner.
        do_clients_report: As ``PlannerLoop`` has it.
        watch: Returns what the loop shall see in the place of the backend, e.g. one that keeps a log.
        limits: Of our scheduler, if they are not the engine's: benchmarks let an engine schedule by itself.
        own_profile: What ``engine.profile: auto`` stands for: what was measured on this machine, now or earlier; by
            default nothing, so that the loop is the same on every machine.
        rehearsed: Robot models that goals will name; None for all that the model can plan for.
        replica: Which of ``config.replicas`` it is.

    Raises:
        PlannerError: A 5xx code if model, robot models, their adapters or configuration cannot be used.
    """
    config = replica_config(config, replica)
    require_usable(config)  # wrong names are found before the model is loaded
    for warning in require_support(config):
        _log.warning("%s", warning)
    policy = make_policy(config.scheduler.policy)
    profile, settings = known_speed(config)
    library = build_library(config)
    served = _served(config, library, rehearsed)
    adapters = {name: adapter for name in served if (adapter := library.get(name).adapter) is not None}
    require_adapters(config.backend, adapters)
    directories = tuple(dict.fromkeys(adapters.values()))
    if config.backend in _OPENERS:
        backend, preparer = _engine(config, library, directories)
    elif config.backend == "fake":
        fake = FakeBackend(sleep=time.sleep)
        encoder = PromptEncoder(tokenizer=fake.tokenizer, style=PromptStyle.INSTRUCT)
        backend, preparer = fake, _preparer(config, fake, library, encoder)
    else:
        backend, preparer = _openai(config, library)
    for warning in warn_of_model(config, backend.info):
        _log.warning("%s", warning)
    times = _times(config, profile, backend, library, own_profile, num_adapters=len(directories))
    scheduler = Scheduler(limits or settings, policy, backend.info, times)
    loop = PlannerLoop(
        backend=watch(backend) if watch else backend,
        scheduler=scheduler,
        preparer=preparer,
        do_clients_report=do_clients_report,
        max_replans=config.max_replans,
        waits_for_plan_s=config.waits_for_plan_s,
        second_look_s=config.second_look_s,
        stopwatch=MonotonicClock(),
    )
    rehearsals = [
        PlanRequest(request_id="warm-up", robot_id="warm-up", robot_model=name, instruction=REHEARSED)
        for name in served
    ]
    loop.warm_up(rehearsals)
    loop.warm_up(rehearsals, num_steps=ENOUGH_STEPS)  # what was first is slow, and nothing to learn from
    return loop


def _times(
    config: PlannerConfig,
    profile: EngineProfile | None,
    backend: Backend,
    library: RobotLibrary,
    own_profile: FindProfile,
    *,
    num_adapters: int,
) -> ProfiledTimes | None:
    """Returns what time budgets count on; None to learn it from the steps."""
    if config.engine.profile == AUTO and config.backend in MEASURED_BACKENDS:
        own = own_profile(EngineAtHand(config, planner_model(config), backend, library, num_adapters))
        return None if own is None else ProfiledTimes(own.profile, own.discard)
    if profile is None:
        return None
    check_fits(profile, backend.info)
    return ProfiledTimes(profile)


def _preparer(
    config: PlannerConfig,
    backend: Backend,
    library: RobotLibrary,
    encoder: PromptEncoder,
    length_predictor: LengthPredictor | None = None,
) -> Preparer:
    """Returns what prepares plans and chats for a model."""
    plans: Preparer = plan_preparer(config, backend, library, encoder)
    if length_predictor is not None:
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="length")
        plans = LengthPreparer(plans, length_predictor, executor, decides_by_lengths(config.scheduler.policy))
    unit = ProseUnit(config.chat_segments)
    return ChatPreparer(plans=plans, library=library, encoder=encoder, sampling=_sampling(config), unit=unit)


def plan_preparer(
    config: PlannerConfig, backend: Backend, library: RobotLibrary, encoder: PromptEncoder
) -> PlanPreparer:
    """Returns what prepares plans for a model, with the checks and the least confidence that are configured for it."""
    is_scripted = config.backend == "fake"
    is_copying = encoder.style is PromptStyle.COMPACT
    return PlanPreparer(
        backend=backend,
        tokenizer=encoder.tokenizer,
        library=library,
        style=encoder.style,
        markup=encoder.markup,
        sampling=_sampling(config),
        replan_context=ReplanContext(config.replan_context),
        min_confidence=0.0 if is_scripted else min_confidence(config),
        checks=None if is_scripted else partial(instruction_checks, is_copying=is_copying, verbs=taught_verbs(config)),
        trained_models=_trained(config),
    )


def _sampling(config: PlannerConfig) -> SamplingParams:
    return SamplingParams(temperature=config.temperature, seed=config.seed)


def _trained(config: PlannerConfig) -> frozenset[str] | None:
    """Returns the robot models that the model may plan for; None for any."""
    return None if config.backend == "fake" else trained_robot_models(config)


def _served(config: PlannerConfig, library: RobotLibrary, named: Collection[str] | None) -> list[str]:
    """Returns the robot models for which the model may write plans, of those that goals will name."""
    served, trained = [], _trained(config)
    for name in library.names():
        try:
            if (named is None or name in named) and is_trained_for(library.get(name), trained):
                served.append(name)
        except PlannerError:
            if trained is None or name in trained:
                raise  # of any other one, goals that name it get the error
    return served


def _engine(config: PlannerConfig, library: RobotLibrary, adapters: tuple[str, ...]) -> tuple[Backend, Preparer]:
    backend = _OPENERS[config.backend](config, adapters)
    encoder = prompt_encoder(planner_model(config), backend.tokenizer, backend.tokenizer.start_text)
    return backend, _preparer(config, backend, library, encoder, build_length_predictor(config))


def _open_torch(config: PlannerConfig, adapters: tuple[str, ...]) -> "TorchBackend":
    from llm_planner.engine.backend import TorchBackend

    engine = config.engine
    return TorchBackend(
        planner_model(config),
        device=engine.device,
        dtype=engine.dtype,
        num_kv_blocks=engine.num_kv_blocks,
        block_size=engine.block_size,
        num_threads=torch_threads(config),
        max_num_seqs=config.scheduler.max_num_seqs,
        num_engines=config.replicas,
        lookahead=engine.lookahead,
        eviction_method=engine.eviction_method,
        adapters=adapters,
    )


def _open_vllm(config: PlannerConfig, adapters: tuple[str, ...]) -> "VllmBackend":
    from llm_planner.backends.vllm.backend import open_backend

    require_pacer(config.engine.micro_batches)  # before the model is loaded
    return open_backend(vllm_settings(config, adapters))


_OPENERS: Mapping[str, Callable[[PlannerConfig, tuple[str, ...]], "TorchBackend | VllmBackend"]] = {
    "torch": _open_torch,
    "vllm": _open_vllm,
}
"""What runs in this process, and takes the directories of adapters."""


def vllm_settings(config: PlannerConfig, adapters: tuple[str, ...] = ()) -> "EngineSettings":
    """Returns what vLLM is started with."""
    from llm_planner.backends.vllm.engine import EngineSettings, further_arguments

    engine = config.engine
    return EngineSettings(
        model_dir=planner_model(config),
        device=engine.device,
        dtype=engine.dtype,
        num_kv_blocks=engine.num_kv_blocks,
        block_size=engine.block_size,
        num_threads=engine.num_threads or _share_of_cores(config),
        max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
        max_live=max(config.max_queued, config.scheduler.max_num_seqs),
        pipeline_stages=engine.pipeline_stages,
        nodes=tuple(node.strip() for node in engine.nodes.split(",") if node.strip()),
        nodes_port=engine.nodes_port,
        micro_batches=engine.micro_batches,
        max_model_len=engine.max_model_len,
        tensor_parallel=engine.tensor_parallel,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        quantization=engine.quantization,
        kv_cache_dtype=engine.kv_cache_dtype,
        lookahead=engine.lookahead,
        adapters=adapters,
        further=further_arguments(engine.vllm_args),
    )


def build_engine(config: PlannerConfig) -> Backend:
    """Returns the engine of a configuration alone, without a planner around it, to be measured step by step.

    Raises:
        PlannerError: INVALID_CONFIG for a backend that is no engine in this process; a 5xx code if it cannot start.
    """
    config = replica_config(config, 0)
    if config.backend not in _OPENERS:
        known = " or ".join(_OPENERS)
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"backend {config.backend} cannot be measured step by step; take {known}"
        )
    return _OPENERS[config.backend](config, ())


def torch_threads(config: PlannerConfig) -> int:
    """Returns how many CPU threads the torch engine has; 0 leaves it to the library.

    If none is configured, a small model has one: several would wait for each other after every operation, which costs
    more than they save as soon as something else keeps a core busy (docs/engine.md).
    """
    from llm_planner.engine.model_config import read_model_config

    if config.engine.num_threads:
        return config.engine.num_threads
    return _share_of_cores(config) if read_model_config(planner_model(config)).is_large else 1


def _share_of_cores(config: PlannerConfig) -> int:
    """Returns the threads of one of several replicas on a processor; 0 where one engine has all of it."""
    is_alone = config.replicas == 1 or config.engine.device not in {"auto", "cpu"}
    return 0 if is_alone else max(1, (os.cpu_count() or 1) // config.replicas)


def _openai(config: PlannerConfig, library: RobotLibrary) -> tuple[Backend, Preparer]:
    from llm_planner.backends.openai.backend import OpenAIBackend

    encoder = build_prompt_encoder(resolve_model(config.engine.model))
    backend = OpenAIBackend(
        config.openai,
        encoder.tokenizer,
        api_key=os.environ.get(config.openai.api_key_variable),
        clock=MonotonicClock(),
        has_raw_prompts=encoder.style is PromptStyle.COMPACT,
    )
    encoder = dataclasses.replace(encoder, tokenizer=backend.tokenizer, markup=backend.markup or encoder.markup)
    if backend.markup is None:
        return backend, _preparer(config, backend, library, encoder, build_length_predictor(config))
    refused = ""
    if config.length_predictor not in {"", OWN_PREDICTOR}:
        refused = "length_predictor: lengths are predicted from token ids"
    elif ReplanContext(config.replan_context) is ReplanContext.FRESH:
        refused = "replan_context: 'fresh' has the model go on in the midst of an answer"
    if refused:
        backend.close()
        message = f"{refused}, and this server takes messages only; leave it"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return backend, _preparer(config, backend, library, encoder)


def replica_config(config: PlannerConfig, number: int) -> PlannerConfig:
    """Returns the configuration of one replica: its device and its server's address.

    Raises:
        PlannerError: INVALID_CONFIG if devices or addresses are not one for all, or one for each, or if all replicas
            would share the machines of ``engine.nodes``.
    """
    if config.replicas > 1 and config.engine.nodes:
        message = f"replicas is {config.replicas}, but engine.nodes hold one engine: leave one of them out"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    engine = dataclasses.replace(
        config.engine, device=_for_replica("engine.device", config.engine.device, config.replicas, number)
    )
    address = _for_replica("openai.base_url", config.openai.base_url, config.replicas, number)
    return dataclasses.replace(config, engine=engine, openai=dataclasses.replace(config.openai, base_url=address))


def _for_replica(name: str, value: str, num_replicas: int, number: int) -> str:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) not in {1, num_replicas}:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"{name} names {len(parts)} for replicas: {num_replicas}; give one for all, or one for each",
        )
    return parts[number % len(parts)]


def build_server(config: PlannerConfig, book: GoalBook) -> PlanServer:
    """Returns a server, not started yet, whose engines run in processes of their own.

    Args:
        config: Of the planner.
        book: The goals; it gets the admission of this configuration.

    Raises:
        PlannerError: INVALID_CONFIG if the replicas cannot be told apart.
    """
    book.admission = build_admission(config)
    replicas = []
    for number in range(config.replicas):
        # Only the first may measure: the next ones are started when robots are served, or share its processor.
        first = partial(build_loop, config, own_profile=cached_profile if number else measured_profile, replica=number)
        later = partial(build_loop, config, own_profile=cached_profile, replica=number)  # robots wait
        replicas.append(Factories(first, later))
    return ChildServer(replicas, book=book, clock=MonotonicClock())
