"""vLLM as it is, to compare with: its own scheduler, driven step by step; and a stopwatch on either scheduler."""

from functools import partial
from typing import Any

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.backends.vllm.engine import EngineSettings, start_engine
from llm_planner.core.interfaces import Clock
from llm_planner.core.step import Sequence


class StockVllm:
    """vLLM with its own scheduler.

    Args:
        settings: With a ``stock_policy``.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._engine = start_engine(settings)
        self._tasks = self._engine.core.get_supported_tasks()

    def add(self, sequence: Sequence, *, max_tokens: int, priority: int) -> None:
        """Gives it a request; the smallest priority comes first."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        grammar = None if sequence.grammar is None else StructuredOutputsParams(grammar=sequence.grammar)
        parameters = SamplingParams(
            temperature=0.0, max_tokens=max_tokens, detokenize=False, structured_outputs=grammar
        )
        prompt: Any = {"type": "token", "prompt_token_ids": list(sequence.prompt_token_ids)}
        core = self._engine.core
        request = self._engine.inputs.process_inputs(
            sequence.request_id, prompt, parameters, self._tasks, priority=priority
        )
        core.add_request(*core.preprocess_add_request(request))

    def step(self) -> dict[str, int]:
        """Makes one step; returns how many tokens came of each request."""
        outputs, is_executed = self._engine.core.step_fn()
        self._engine.core.post_step(is_executed)
        return {o.request_id: len(o.new_token_ids) for client in (outputs or {}).values() for o in client.outputs}

    def close(self) -> None:
        """Frees everything."""
        self._engine.core.shutdown()


class ScheduleWatch:
    """Times vLLM's schedule, with our mixin or without it, and the whole step around it.

    Attributes:
        is_stock: Whether the next step is scheduled without us.
        schedule_s: What the last schedule took.
        step_s: What the last step took.
    """

    def __init__(self, backend: VllmBackend, clock: Clock) -> None:
        from vllm.v1.core.sched.scheduler import Scheduler

        self._core, self._clock = backend.engine.core, clock
        self._scheduler = backend.engine.scheduler
        self._ours, self._stock = self._scheduler.schedule, partial(Scheduler.schedule, self._scheduler)
        self._step = self._core.step_fn
        self._scheduler.schedule, self._core.step_fn = self._schedule, self._whole_step  # type: ignore[method-assign]
        self.is_stock = False
        self.schedule_s = self.step_s = 0.0

    def _schedule(self, throttle_prefills: bool = False) -> Any:  # noqa: ANN401 (vLLM's SchedulerOutput)
        start_s = self._clock.now_s()
        output = (self._stock if self.is_stock else self._ours)(throttle_prefills)
        self.schedule_s = self._clock.now_s() - start_s
        return output

    def _whole_step(self) -> Any:  # noqa: ANN401 (vLLM's)
        start_s = self._clock.now_s()
        result = self._step()
        self.step_s = self._clock.now_s() - start_s
        return result

    def restore(self) -> None:
        """Takes the stopwatch off."""
        self._scheduler.schedule, self._core.step_fn = self._ours, self._step  # type: ignore[method-assign]
