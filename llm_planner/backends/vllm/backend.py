# SPDX-License-Identifier: Apache-2.0
"""The vLLM backend: hands our steps to vLLM, and what vLLM made of them back."""

import math
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any

import torch

from llm_planner.backends.vllm.arrivals import Arrivals
from llm_planner.backends.vllm.contract import VERSION
from llm_planner.backends.vllm.drafts import Drafts, measure_step_cost
from llm_planner.backends.vllm.engine import Engine, EngineSettings, start_engine
from llm_planner.backends.vllm.micro_batches import MicroBatches
from llm_planner.backends.vllm.names import Names
from llm_planner.backends.vllm.pipeline import divide_work
from llm_planner.backends.vllm.probe import require_behaviour
from llm_planner.backends.vllm.roster import Roster
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput, TokenChoice
from llm_planner.engine.hardware import device_name
from llm_planner.engine.sampler import CLEAR_LOGPROB, NUM_ALTERNATIVES
from llm_planner.engine.tokenizer import HFTokenizer, load_tokenizer

if TYPE_CHECKING:
    from llm_planner.backends.vllm.scheduler_mixin import WatchedMixin


class VllmBackend:
    """Implements ``core.interfaces.Backend`` with vLLM in this process.

    vLLM keeps its step (we only name the requests), the KV cache, preemption, prompts in chunks, steps in flight.
    ``execute`` hands a step in and returns the next one that came back, which may be an earlier one.

    Args:
        engine: Running; the backend closes it.
        tokenizer: The model's.
        model: Name of the model.
        drafts: Of an engine that verifies them; None for one token per step.
        clock: Times the steps.

    Attributes:
        drafts: What is drafted behind new requests from now on; None for nothing.
        pipeline_times: As they were measured at the start; None without a pipeline.
    """

    pipeline_times: PipelineTimes | None = None

    def __init__(
        self,
        engine: Engine,
        *,
        tokenizer: HFTokenizer,
        model: str,
        drafts: Drafts | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.drafts = drafts
        self._clock = clock or MonotonicClock()
        self._engine: Engine | None = engine
        self._tasks = engine.core.get_supported_tasks()
        self._arrivals = Arrivals()
        self._names = Names()
        self._prefixes: dict[tuple[str, str | None], int] = {}
        num_blocks = engine.scheduler.kv_cache_config.num_blocks - 1  # one stands for "no block"
        block_size = engine.scheduler.block_size
        self._info = BackendInfo(
            model=model,
            num_kv_blocks=num_blocks,
            block_size=block_size,
            max_model_len=min(engine.scheduler.max_model_len, num_blocks * block_size),
            can_offload=False,
            device=_device(engine),
            keeps_kv=True,
            num_stages=engine.core.vllm_config.parallel_config.pipeline_parallel_size,
        )

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return self._info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Computes a static prompt prefix once; vLLM's prefix cache then shares its whole blocks by their content.

        Nothing pins them: unused for long, they may be computed again. Returns how many tokens are shared.
        """
        num_shared = len(token_ids) // self._info.block_size * self._info.block_size
        if len(token_ids) >= self._info.max_model_len:
            return 0
        if (prefix_id, adapter) not in self._prefixes and num_shared:
            request_id = f"prefix {prefix_id}"
            prefix = Sequence(request_id=request_id, prompt_token_ids=tuple(token_ids), adapter=adapter)
            self._add(prefix, max_tokens=1)
            while self._names.inner(request_id) in self._scheduler.requests:
                self._step({request_id: len(token_ids)})
            self._arrivals.forget(request_id)
        self._prefixes[prefix_id, adapter] = num_shared
        return num_shared

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Hands one step to vLLM and returns what came back, of this step or of an earlier one.

        Raises:
            PlannerError: EVICTION_UNSUPPORTED; ENGINE_FAILED if vLLM broke down: it must be restarted.
        """
        if scheduled.evict:
            raise PlannerError(ErrorCode.EVICTION_UNSUPPORTED, "vLLM cannot remove KV from within a request")
        start_s = self._clock.now_s()
        self._release(scheduled.release)
        for sequence in scheduled.new:
            try:
                self._add(sequence)
            except Exception as error:  # noqa: BLE001 (whatever vLLM finds wrong with one, the others go on)
                self._arrivals.of(sequence.request_id).failure = f"vLLM refuses the request: {error}"
        if scheduled.num_scheduled_tokens:
            self._step(scheduled.num_scheduled_tokens, scheduled.suspended, scheduled.urgent)
        return self._output(scheduled, start_s)

    def close(self) -> None:
        """Frees everything; safe to call twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.core.shutdown()

    @property
    def engine(self) -> Engine:
        """The vLLM underneath.

        Raises:
            PlannerError: SHUTTING_DOWN once it is closed.
        """
        if self._engine is None:
            raise PlannerError(ErrorCode.SHUTTING_DOWN, "the engine is closed")
        return self._engine

    def divide(self, micro_batches: MicroBatches | None) -> None:
        """Has the work of a pipeline divided from now on; None puts all that is ready into the next micro-batch."""
        self._scheduler.micro_batches = micro_batches

    @property
    def _scheduler(self) -> "WatchedMixin":
        return self.engine.scheduler

    # --- Requests

    def _add(self, sequence: Sequence, max_tokens: int | None = None) -> None:
        """Gives vLLM a request; raises ValueError if it cannot be served."""
        engine = self.engine
        if sequence.adapter is not None and sequence.adapter not in engine.adapters:
            raise ValueError(f"adapter {sequence.adapter!r} is not loaded")
        adapter = None if sequence.adapter is None else engine.adapters[sequence.adapter]
        prompt: Any = {"type": "token", "prompt_token_ids": list(sequence.prompt_token_ids)}
        parameters = self._sampling(sequence, max_tokens)
        name = self._names.give(sequence.request_id)
        if self.drafts is not None and max_tokens is None:
            self.drafts.open(sequence)
        request = engine.inputs.process_inputs(name, prompt, parameters, self._tasks, lora_request=adapter)
        engine.core.add_request(*engine.core.preprocess_add_request(request))

    def _sampling(self, sequence: Sequence, max_tokens: int | None) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        ours, grammar = sequence.sampling, sequence.first_grammar or sequence.grammar
        return SamplingParams(
            temperature=ours.temperature,
            top_p=ours.top_p,
            seed=ours.seed if ours.temperature else None,
            max_tokens=max_tokens,
            logprobs=1 + NUM_ALTERNATIVES,
            stop_token_ids=sorted(self.tokenizer.eos_token_ids),
            detokenize=False,
            structured_outputs=None if grammar is None else StructuredOutputsParams(grammar=grammar),
        )

    def _release(self, request_ids: Iterable[str]) -> None:
        ended = list(request_ids)
        if ended:
            self.engine.core.abort_requests([self._names.inner(name) for name in ended])
            for request_id in ended:
                self._arrivals.forget(request_id)
                self._names.forget(request_id)
                if self.drafts is not None:
                    self.drafts.forget(request_id)

    # --- Steps

    def _step(self, num_tokens: Mapping[str, int], suspended: Iterable[str] = (), urgent: Iterable[str] = ()) -> None:
        """Lets vLLM make a step, or take one back that was in flight."""
        core, scheduler, inner = self.engine.core, self._scheduler, self._names.inner
        roster = Roster(
            num_tokens={inner(r): n for r, n in num_tokens.items()},
            suspended=tuple(map(inner, suspended)),
            urgent=frozenset(map(inner, urgent)),
        )
        try:
            for _ in range(max(1, core.batch_queue_size)):
                scheduler.plan(roster)
                outputs, is_executed = core.step_fn()
                core.post_step(is_executed)
                self._collect(outputs)
                if scheduler.scheduled or scheduler.completed:
                    return
        except Exception as error:
            message = f"vLLM broke down: {error!r}; the engine must be restarted"
            raise PlannerError(ErrorCode.ENGINE_FAILED, message) from error

    def _collect(self, outputs: Any) -> None:
        """Notes which step came back and what it brought."""
        outer, arrival_of, scheduler = self._names.outer, self._arrivals.of, self._scheduler
        completed = scheduler.completed or {}
        for name, num_tokens in completed.items():
            if (request_id := outer(name)) is not None:
                arrival = arrival_of(request_id)
                arrival.num_scheduled_tokens += num_tokens
                arrival.num_rejected_tokens += scheduler.rejected.get(name, 0)
        for client in (outputs or {}).values():
            for output in client.outputs:
                if (request_id := outer(output.request_id)) is None:
                    continue
                arrival = arrival_of(request_id)
                arrival.choices += _choices(output)
                if output.finish_reason is None:
                    arrival.token_ids += output.new_token_ids
                    if self.drafts is not None:
                        request = scheduler.requests[output.request_id]
                        room = scheduler.num_draft_slots(request)
                        self.drafts.extend(request_id, request, output.new_token_ids, room, len(completed))
                    continue
                reason = str(output.finish_reason)
                arrival.token_ids += [t for t in output.new_token_ids if t not in self.tokenizer.eos_token_ids]
                arrival.is_finished = reason == "stop"
                if reason == "error":
                    arrival.failure = "vLLM ended the request: its grammar does not compile, or no token fits it"

    def _output(self, scheduled: SchedulerOutput, start_s: float) -> StepOutput:
        arrived = self._arrivals.take(scheduled.suspended)
        lost = [name for inner in self._scheduler.given_up if (name := self._names.outer(inner)) is not None]
        self._scheduler.given_up.clear()
        count, inner = self._scheduler.num_kv_tokens, self._names.inner
        told = {*arrived, *scheduled.num_scheduled_tokens, *lost}
        return StepOutput(
            token_ids={name: tuple(a.token_ids) for name, a in arrived.items() if a.token_ids},
            choices={name: tuple(a.choices) for name, a in arrived.items() if a.choices},
            finished={name: FinishReason.STOP for name, a in arrived.items() if a.is_finished},
            failed={name: a.failure for name, a in arrived.items() if a.failure is not None},
            free_kv_blocks=self._scheduler.num_free_blocks,
            duration_s=self._clock.now_s() - start_s,
            num_draft_tokens={name: self._num_drafted(name) for name in arrived},
            num_rejected_tokens={name: a.num_rejected_tokens for name, a in arrived.items()},
            step=SchedulerOutput(num_scheduled_tokens={name: a.num_scheduled_tokens for name, a in arrived.items()}),
            num_computed_tokens={name: n for name in told if (n := count(inner(name))) is not None},
        )

    def _num_drafted(self, request_id: str) -> int:
        request = self._scheduler.requests.get(self._names.inner(request_id))
        return 0 if request is None else len(request.spec_token_ids)


def _choices(output: Any) -> list[TokenChoice]:
    """Returns how sure the model was of each new token.

    Deviation from our own engine: among the tokens that the grammar allows, because vLLM masks the logits before it
    computes probabilities.
    """
    if output.new_logprobs is None:
        return []
    rows = zip(output.new_logprobs.logprob_token_ids.tolist(), output.new_logprobs.logprobs.tolist(), strict=True)
    return [_choice(*map(TokenChoice, token_ids, logprobs)) for token_ids, logprobs in rows]


def _choice(chosen: TokenChoice, *likeliest: TokenChoice) -> TokenChoice:
    if chosen.logprob > CLEAR_LOGPROB:
        return chosen
    others = tuple(o for o in likeliest if o.token_id != chosen.token_id and o.logprob > -math.inf)
    return chosen._replace(alternatives=others[:NUM_ALTERNATIVES])


def _device(engine: Engine) -> str:
    """Returns what the speed depends on, as an engine profile names it."""
    from vllm.platforms import current_platform

    config = engine.core.vllm_config
    name = device_name(torch.device(current_platform.device_type), config.model_config.dtype)
    stages, shares = config.parallel_config.pipeline_parallel_size, config.parallel_config.tensor_parallel_size
    parts = [
        f"{stages} stages" if stages > 1 else "",
        f"{shares} devices per stage" if shares > 1 else "",
        config.model_config.quantization or "",
        f"KV {config.cache_config.cache_dtype}" if config.cache_config.cache_dtype != "auto" else "",
    ]
    return ", ".join([f"{name}, vLLM {VERSION}", *filter(None, parts)])


def open_backend(settings: EngineSettings) -> VllmBackend:
    """Returns vLLM as a backend, with the model loaded.

    Raises:
        PlannerError: If vLLM, or the model in it, cannot be used (``engine.start_engine``).
    """
    drafts = Drafts(settings.lookahead)
    tokenizer = load_tokenizer(settings.model_dir)
    engine = start_engine(settings)
    backend = VllmBackend(
        engine,
        tokenizer=tokenizer,
        model=settings.model_dir.resolve().name,
        drafts=drafts if engine.core.use_spec_decode else None,
    )
    require_behaviour(backend)
    if backend.drafts is not None and drafts.lookahead.follows_device:
        drafts.lookahead.cost = measure_step_cost(backend)
    if settings.pipeline_stages > 1:
        divide_work(backend, settings)
    return backend
