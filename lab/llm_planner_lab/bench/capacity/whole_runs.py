# SPDX-License-Identifier: Apache-2.0
"""Whole runs of an engine, as throughput tables have them: a number of prompts in, their responses out."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.prediction.throughput.table import Combination, Measurement
from llm_planner_lab.bench.planner_profile import timed_engine

LENGTHS = (32, 64, 128, 256)
BATCH_SIZES = (1, 2, 4, 8, 16)
FRAMEWORKS = {"torch": "llm_planner", "vllm": "vLLM"}
"""Backends, as tables of throughputs name them."""
NUM_REPEATS = 3
VOCABULARY = 100
Note = Callable[[str], None]


def measure_table(config: PlannerConfig, note: Note = lambda _: None) -> list[Measurement]:
    """Returns whole runs of the engine of ``config`` on this machine.

    Raises:
        PlannerError: INVALID_CONFIG for a backend that is no engine in this process; a 5xx code if it cannot start.
    """
    engine = replace(config.engine, lookahead="off")  # a run counts one token per step
    backend = timed_engine(replace(config, engine=engine))
    num_devices = engine.tensor_parallel * engine.pipeline_stages
    try:
        return measure_runs(backend, FRAMEWORKS[config.backend], num_devices, note=note)
    finally:
        backend.close()


def measure_runs(
    backend: Backend,
    framework: str,
    num_devices: int = 1,
    lengths: Sequence[int] = LENGTHS,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    note: Note = lambda _: None,
) -> list[Measurement]:
    """Returns a measurement per length and batch size that fits into the engine: the median of three runs."""
    info = backend.info
    combination = Combination(info.device or "unknown", num_devices, framework, info.model)
    rng = random.Random(0)
    run_s(backend, lengths[0], 1, rng)  # warm
    measurements = []
    for length in lengths:
        for batch in batch_sizes:
            num_blocks = batch * -(-2 * length // info.block_size)
            if 2 * length > info.max_model_len or num_blocks > info.num_kv_blocks:
                continue
            latency_s = statistics.median(run_s(backend, length, batch, rng) for _ in range(NUM_REPEATS))
            measurements.append(Measurement(combination, length, batch, latency_s, 2 * length * batch / latency_s))
        note(f"whole runs with {length} tokens: {len(measurements)} measured")
    return measurements


def run_s(backend: Backend, length_tokens: int, batch_size: int, rng: random.Random) -> float:
    """Returns the seconds of the steps that compute a batch of prompts and write as many tokens for each.

    A sequence that the model ends early is replaced by another one, whose prompt is not counted: the batch stays full.
    """
    run = _Run(backend, length_tokens, rng)
    total_s = run.start([length_tokens] * batch_size)
    while run.left:
        total_s += run.step()
    return max(total_s, 1e-9)


class _Run:
    """One batch on its way.

    Attributes:
        left: Per sequence, how many tokens it has still to write.
    """

    def __init__(self, backend: Backend, length_tokens: int, rng: random.Random) -> None:
        self._backend = backend
        self._length_tokens = length_tokens
        self._rng = rng
        self._num_started = 0
        self.left: dict[str, int] = {}

    def start(self, counts: Sequence[int]) -> float:
        """Computes a prompt for each count of tokens to write; returns how long that took."""
        names = [f"run-{self._num_started + index}" for index in range(len(counts))]
        self._num_started += len(counts)
        new = tuple(TokenSequence(request_id=name, prompt_token_ids=self._prompt()) for name in names)
        self.left |= dict(zip(names, counts, strict=True))
        scheduled = SchedulerOutput(new=new, num_scheduled_tokens=dict.fromkeys(names, self._length_tokens))
        return self._execute(scheduled)

    def step(self) -> float:
        """Decodes a token of each; returns how long that took."""
        return self._execute(SchedulerOutput(num_scheduled_tokens=dict.fromkeys(self.left, 1)))

    def _prompt(self) -> tuple[int, ...]:
        return tuple(self._rng.randrange(3, VOCABULARY) for _ in range(self._length_tokens))

    def _execute(self, scheduled: SchedulerOutput) -> float:
        output = self._backend.execute(scheduled)
        for name in scheduled.num_scheduled_tokens:
            self.left[name] -= max(1, len(output.token_ids.get(name, ())))
        ended = {name: self.left[name] for name in self.left if self.left[name] <= 0 or name in output.finished}
        if ended:
            self._backend.execute(SchedulerOutput(release=tuple(ended)))
            self.left = {name: count for name, count in self.left.items() if name not in ended}
            cut_short = [count for count in ended.values() if count > 0]
            if cut_short:
                self.start(cut_short)
        return output.duration_s
