# SPDX-License-Identifier: Apache-2.0
"""A backend in virtual time: scripted tokens, exact KV accounting, and the step times of an engine profile."""

from bisect import bisect_right
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import FinishReason, SchedulerOutput, StepOutput
from llm_planner.prediction.profile import Chunk, EngineProfile
from llm_planner_lab.simulation.profiled_steps import ProfiledSteps
from llm_planner_lab.simulation.trace import RequestStep

_TOKEN = (1,)


class KVReturn(Enum):
    """What was done so that a generation had its KV again."""

    NOTHING = "kept"  # it had never left the accelerator
    RESTORED = "restored"  # copied back from host memory
    RECOMPUTED = "recomputed"


@dataclass(slots=True)
class _Run:
    """One generation.

    Attributes:
        kv_len: Tokens in its cache, shared ones included.
        num_computed_tokens: Tokens that went through the model; more than ``kv_len`` once KV was evicted.
        num_tokens: Prompt and output tokens so far.
        num_left: Tokens of the script still to be written.
        num_written: Tokens of the script so far.
        ends: After how many tokens of the script its steps end; empty for one each.
        rows: How many tokens each of these steps computes.
        ends_alone: Whether the end takes a step of its own.
    """

    kv_len: int
    num_computed_tokens: int
    shared_blocks: int
    num_tokens: int
    num_left: int
    num_written: int
    ends: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    ends_alone: bool = True
    is_offloaded: bool = False

    def read(self, num_inserted: int, num_left: int, steps: Seq[RequestStep]) -> None:
        """Appends tokens to its context; it writes another script behind them."""
        self.num_tokens += num_inserted
        self.num_left, self.num_written = num_left, 0
        self.follow(steps)

    def follow(self, steps: Seq[RequestStep]) -> None:
        """Writes in these steps."""
        self.ends = tuple(accumulate(step.num_tokens for step in steps))
        self.rows = tuple(step.num_rows for step in steps)
        self.ends_alone = not (steps and steps[-1].num_tokens)

    def write(self) -> int:
        """Returns how many tokens of the script come now."""
        index = self._step
        end = self.ends[index] if index < len(self.ends) else self.num_written + 1
        count = min(self.num_left, end - self.num_written)
        self.num_left -= count
        self.num_written += count
        self.num_tokens += count
        return count

    def num_rows(self, num_tokens: int) -> int:
        """Returns how many tokens a step computes for which ``num_tokens`` are scheduled: drafts come with those."""
        if num_tokens > MOST_DECODED_TOKENS or self._step >= len(self.rows):
            return num_tokens
        return self.rows[self._step]

    @property
    def _step(self) -> int:
        """Place of the step that comes now; behind the last one if it is not known."""
        place = bisect_right(self.ends, self.num_written)
        return place - 1 if self.ends and not self.num_left else place


class SimulatedBackend:
    """Implements ``core.interfaces.Backend`` without a model.

    Args:
        profile: Step times and sizes.
        num_plan_tokens: Length of the scripted plan of a request, by its id, or of its replan.
        steps: In which the plan of a request comes, by its id; none, or too few: one token each.
        reuses_prefixes: Whether ``load_prefix`` shares anything. Prefixes are taken to be warm: loading costs no time.
        can_offload: Whether KV can move to host memory; else what loses its memory is computed again.

    Attributes:
        num_new: Prompts that the last step began.
        steps: How long they take.
    """

    def __init__(
        self,
        profile: EngineProfile,
        num_plan_tokens: Callable[[str], int],
        steps: Callable[[str], Seq[RequestStep]] = lambda _: (),
        *,
        reuses_prefixes: bool = True,
        can_offload: bool = True,
    ) -> None:
        self._profile = profile
        self._num_plan_tokens = num_plan_tokens
        self._request_steps = steps
        self._reuses_prefixes = reuses_prefixes
        self._prefixes: dict[str, int] = {}
        self._runs: dict[str, _Run] = {}
        self._returns: dict[str, KVReturn] = {}
        self._free_blocks = profile.num_kv_blocks
        self._last_chunks: list[Chunk] = []
        self.steps = ProfiledSteps(profile)
        self.num_new = 0
        self.busy_s = 0.0
        self.num_steps = 0
        self.info = BackendInfo(
            model=profile.model,
            num_kv_blocks=profile.num_kv_blocks,
            block_size=profile.block_size,
            max_model_len=profile.max_model_len,
            can_offload=can_offload,
            device=profile.device,
            can_evict=True,
            can_insert=True,
        )

    @property
    def last_step(self) -> tuple[int, int]:
        """Prompt tokens and decoding generations of the last step."""
        prompts = [chunk.num_tokens for chunk in self._last_chunks if chunk.num_tokens > MOST_DECODED_TOKENS]
        return sum(prompts), len(self._last_chunks) - len(prompts)

    @property
    def last_num_seqs(self) -> int:
        """Generations that ran in the last step."""
        return len(self._last_chunks)

    def take_kv_return(self, request_id: str) -> KVReturn:
        """Returns what was done, since the last call, so that a generation had its KV again."""
        return self._returns.pop(request_id, KVReturn.NOTHING)

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Returns how many leading tokens of the prefix are shared: whole blocks, or none if memory is short."""
        if not self._reuses_prefixes:
            return 0
        if prefix_id not in self._prefixes:
            num_blocks = len(token_ids) // self._profile.block_size
            if num_blocks > self._free_blocks:
                return 0
            self._prefixes[prefix_id] = num_blocks * self._profile.block_size
            self._free_blocks -= num_blocks
        return self._prefixes[prefix_id]

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        duration_s = self._move(scheduled)
        for sequence in scheduled.new:
            num_output, cached = len(sequence.output_token_ids), sequence.num_cached_tokens
            if num_output:
                self._returns[sequence.request_id] = KVReturn.RECOMPUTED
            run = self._runs[sequence.request_id] = _Run(
                kv_len=cached,
                num_computed_tokens=cached,
                shared_blocks=cached // self._profile.block_size,
                num_tokens=len(sequence.prompt_token_ids) + num_output,
                num_left=self._num_plan_tokens(sequence.request_id) - num_output,
                num_written=num_output,
            )
            run.follow(self._request_steps(sequence.request_id))
        for request_id, inserted in scheduled.insert.items():
            self._runs[request_id].read(
                len(inserted), self._num_plan_tokens(request_id), self._request_steps(request_id)
            )
        token_ids: dict[str, tuple[int, ...]] = {}
        finished: dict[str, FinishReason] = {}
        chunks: list[Chunk] = []
        for request_id, num_tokens in scheduled.num_scheduled_tokens.items():
            run = self._runs[request_id]
            chunks.append(Chunk(run.num_rows(num_tokens), run.kv_len))
            if not self._advance(run, num_tokens):
                continue
            if run.num_left > 0:
                token_ids[request_id] = _TOKEN * run.write()
                if run.num_left or run.ends_alone:
                    continue
            finished[request_id] = FinishReason.STOP
        if self._free_blocks < 0:
            raise MemoryError("the scheduler overdrew the KV cache")
        self._last_chunks, self.num_new = chunks, len(scheduled.new)
        duration_s += self.steps.run(chunks)
        self.busy_s += duration_s
        self.num_steps += 1
        return StepOutput(
            token_ids=token_ids, finished=finished, free_kv_blocks=self._free_blocks, duration_s=duration_s
        )

    def _advance(self, run: _Run, num_tokens: int) -> bool:
        """Computes ``num_tokens``; returns whether the next token comes out."""
        if run.is_offloaded:
            raise MemoryError("a generation was scheduled while its KV was offloaded")
        size = self._profile.block_size
        before = -(-run.kv_len // size)
        run.kv_len += num_tokens
        run.num_computed_tokens += num_tokens
        self._free_blocks -= -(-run.kv_len // size) - before
        return run.num_computed_tokens >= run.num_tokens

    def _move(self, scheduled: SchedulerOutput) -> float:
        """Releases, offloads, restores and evicts KV; returns the seconds that it takes."""
        duration_s = 0.0
        for request_id in scheduled.release:
            run = self._runs.pop(request_id, None)
            if run is not None and not run.is_offloaded:
                self._free_blocks += self._private_blocks(run)
        for request_id in scheduled.offload:
            run = self._runs[request_id]
            run.is_offloaded = True
            self._free_blocks += self._private_blocks(run)
            duration_s += self._profile.offload.time_s(self._private_tokens(run))
        for request_id in scheduled.restore:
            run = self._runs[request_id]
            run.is_offloaded = False
            self._returns[request_id] = KVReturn.RESTORED
            self._free_blocks -= self._private_blocks(run)
            duration_s += self._profile.resume.time_s(self._private_tokens(run))
        for request_id, num_removed in scheduled.evict.items():
            run = self._runs[request_id]
            before = self._private_blocks(run)
            duration_s += self._profile.evict.time_s(run.kv_len)
            run.kv_len -= num_removed
            self._free_blocks += before - self._private_blocks(run)
        return duration_s

    def _private_blocks(self, run: _Run) -> int:
        return -(-run.kv_len // self._profile.block_size) - run.shared_blocks

    def _private_tokens(self, run: _Run) -> int:
        return run.kv_len - run.shared_blocks * self._profile.block_size

    def close(self) -> None:
        """Frees everything."""
        self._runs.clear()
        self._prefixes.clear()
