# SPDX-License-Identifier: Apache-2.0
"""A tokenizer and a backend without a model: scripted plans with exact timing and exact KV accounting.

For tests, for the command line (``backend: fake``), and for robots' integrators without a model at hand.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput

EOS_TOKEN_ID = 0
_EXACTLY = re.compile(r"exactly:? ([^\n]+)")


class FakeTokenizer:
    """Reversible and without a vocabulary: a token is up to ``bytes_per_token`` bytes, written as one number."""

    def __init__(self, bytes_per_token: int = 3) -> None:
        self._bytes_per_token = bytes_per_token

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        return frozenset({EOS_TOKEN_ID})

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Returns the ids of ``text``; there are no special tokens in it."""
        raw, size = text.encode(), self._bytes_per_token
        return [int.from_bytes(b"\x01" + raw[i : i + size], "big") for i in range(0, len(raw), size)]

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes that one token stands for."""
        return token_id.to_bytes((token_id.bit_length() + 7) // 8, "big")[1:]

    def decode(self, token_ids: Seq[int]) -> str:
        """Returns the text of tokens."""
        return b"".join(map(self.token_bytes, token_ids)).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTiming:
    """How long a step takes: a constant, plus a share per prompt token and per decoding generation, in seconds."""

    step_s: float = 0.01
    prompt_token_s: float = 0.0001
    decode_s: float = 0.001

    def duration_s(self, scheduled: SchedulerOutput) -> float:
        """Returns the duration of one step."""
        chunks = [n for n in scheduled.num_scheduled_tokens.values() if n > 1]
        num_decodes = len(scheduled.num_scheduled_tokens) - len(chunks)
        return self.step_s + self.prompt_token_s * sum(chunks) + self.decode_s * num_decodes


@dataclass(slots=True)
class _State:
    """One generation: the script it follows, and its KV."""

    prompt: str
    tokens_to_compute: int
    num_computed_tokens: int
    plan_token_ids: list[int]
    num_generated: int = 0
    kv_len: int = 0
    num_shared_blocks: int = 0
    is_offloaded: bool = False


@dataclass(slots=True, kw_only=True)
class FakeBackend:
    """Implements ``core.interfaces.Backend``: writes the plan that ``plans`` holds for the instruction.

    An instruction such as ``exactly: mf(50);tc(90);`` is its own script.

    Args:
        plans: Instruction to plan, in canonical MiniSpec. The longest instruction that occurs in the prompt counts; one
            that is inserted later makes it write another plan.
        default_plan: What it writes for anything else.
        timing: How long steps take.
        sleep: Called with the duration of each step, e.g. ``time.sleep``; None takes no time at all.
        fail: Instructions whose generation fails at its first token.
    """

    plans: Mapping[str, str] = field(default_factory=dict)
    default_plan: str = "l('I have no plan for this');"
    tokenizer: FakeTokenizer = field(default_factory=FakeTokenizer)
    timing: FakeTiming = field(default_factory=FakeTiming)
    sleep: Callable[[float], None] | None = None
    fail: frozenset[str] = frozenset()
    num_kv_blocks: int = 4096
    block_size: int = 16
    max_model_len: int = 32768
    can_offload: bool = True
    num_host_blocks: int = sys.maxsize
    can_evict: bool = True
    can_insert: bool = True
    _prefixes: dict[str, int] = field(default_factory=dict)
    _states: dict[str, _State] = field(default_factory=dict)

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return BackendInfo(
            model="fake",
            num_kv_blocks=self.num_kv_blocks,
            block_size=self.block_size,
            max_model_len=self.max_model_len,
            can_offload=self.can_offload,
            num_host_blocks=self.num_host_blocks,
            can_evict=self.can_evict,
            can_insert=self.can_insert,
        )

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Returns how many leading tokens of the prefix are shared: whole blocks, or none if memory is short."""
        if prefix_id not in self._prefixes:
            num_blocks = len(token_ids) // self.block_size
            if num_blocks > self.num_free_blocks:
                return 0
            self._prefixes[prefix_id] = num_blocks * self.block_size
        return self._prefixes[prefix_id]

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        if scheduled.evict and not self.can_evict:
            raise PlannerError(ErrorCode.EVICTION_UNSUPPORTED, "this backend was told that it cannot evict KV")
        for request_id in scheduled.release:
            self._states.pop(request_id, None)
        self._offload(scheduled.offload)
        for request_id in scheduled.restore:
            self._states[request_id].is_offloaded = False
        for request_id, num_removed in scheduled.evict.items():
            self._states[request_id].kv_len -= num_removed
        failed = {s.request_id: "scripted failure" for s in scheduled.new if not self._open(s)}
        failed |= {name: "scripted failure" for name, ids in scheduled.insert.items() if not self._insert(name, ids)}
        token_ids: dict[str, tuple[int, ...]] = {}
        finished: dict[str, FinishReason] = {}
        for request_id, num_tokens in scheduled.num_scheduled_tokens.items():
            if request_id not in failed:
                self._run(request_id, num_tokens, token_ids, finished)
        if self.num_free_blocks < 0:
            raise MemoryError("the scheduler overdrew the KV cache")
        duration_s = self.timing.duration_s(scheduled)
        if self.sleep is not None:
            self.sleep(duration_s)
        return StepOutput(
            token_ids=token_ids,
            finished=finished,
            failed=failed,
            free_kv_blocks=self.num_free_blocks,
            duration_s=duration_s,
        )

    def close(self) -> None:
        """Frees everything."""
        self._states.clear()
        self._prefixes.clear()

    @property
    def num_free_blocks(self) -> int:
        """KV blocks that no sequence holds, counted one by one."""
        prefix_blocks = sum(self._prefixes.values()) // self.block_size
        return self.num_kv_blocks - prefix_blocks - self._num_blocks(is_offloaded=False)

    def _num_blocks(self, *, is_offloaded: bool) -> int:
        held = [s for s in self._states.values() if s.is_offloaded == is_offloaded]
        return sum(-(-s.kv_len // self.block_size) - s.num_shared_blocks for s in held)

    def _offload(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            self._states[request_id].is_offloaded = True
        if self._num_blocks(is_offloaded=True) > (self.num_host_blocks if self.can_offload else 0):
            raise MemoryError("the scheduler overdrew the host memory")

    def _open(self, sequence: Sequence) -> bool:
        """Looks up the script of a new sequence; returns False if it is to fail."""
        prompt = self.tokenizer.decode(sequence.prompt_token_ids)
        plan = self._plan(prompt)
        if plan is None:
            return False
        num_output = len(sequence.output_token_ids)
        self._states[sequence.request_id] = _State(
            prompt=prompt,
            tokens_to_compute=len(sequence.prompt_token_ids) + num_output,
            num_computed_tokens=sequence.num_cached_tokens,
            plan_token_ids=[*self.tokenizer.encode(plan), EOS_TOKEN_ID],
            num_generated=num_output,
            kv_len=sequence.num_cached_tokens,
            num_shared_blocks=sequence.num_cached_tokens // self.block_size,
        )
        return True

    def _insert(self, request_id: str, token_ids: Seq[int]) -> bool:
        """Looks up the script that follows what is inserted; returns False if it is to fail."""
        state = self._states[request_id]
        written = [t for t in state.plan_token_ids[: state.num_generated] if t != EOS_TOKEN_ID]
        state.prompt += self.tokenizer.decode([*written, *token_ids])
        plan = self._plan(state.prompt)
        state.tokens_to_compute += len(token_ids) - (state.num_generated - len(written))
        state.plan_token_ids, state.num_generated = [*self.tokenizer.encode(plan or ""), EOS_TOKEN_ID], 0
        return plan is not None

    def _plan(self, prompt: str) -> str | None:
        """Returns what of the scripted plan is not in the prompt yet; None if it is to fail."""
        known = sorted((text for text in (*self.plans, *self.fail) if text in prompt), key=len)
        if known and known[-1] in self.fail:
            return None
        exactly = _EXACTLY.search(prompt)
        plan = self.plans[known[-1]] if known else exactly[1] if exactly else self.default_plan
        ends = [n for n in range(len(plan), 0, -1) if plan[n - 1] in ";{}"]
        return plan[next((n for n in ends if prompt.endswith(plan[:n])), 0) :]

    def _run(
        self,
        request_id: str,
        num_tokens: int,
        token_ids: dict[str, tuple[int, ...]],
        finished: dict[str, FinishReason],
    ) -> None:
        state = self._states[request_id]
        if state.is_offloaded:
            raise MemoryError(f"{request_id} was scheduled while offloaded")
        state.kv_len += num_tokens
        state.num_computed_tokens += num_tokens
        if state.num_computed_tokens < state.tokens_to_compute:
            return
        token_id = state.plan_token_ids[state.num_generated]
        state.num_generated += 1
        state.tokens_to_compute += 1
        if token_id == EOS_TOKEN_ID:
            finished[request_id] = FinishReason.STOP
        else:
            token_ids[request_id] = (token_id,)
