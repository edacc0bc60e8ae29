# SPDX-License-Identifier: Apache-2.0
"""An engine profile: how long a step of one model on one device takes, each number with its source; read from YAML."""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.prediction.capacity.curve import CapacityData
from llm_planner.robots.record import Record, require
from llm_planner.robots.timing import Parameter, Source

_UNKNOWN = Parameter(value=0.0, source=Source.ASSUMED)
_EXACT = Parameter(value=1.0, source=Source.ASSUMED)


class Chunk(NamedTuple):
    """Tokens of one sequence that one step computes.

    Attributes:
        num_tokens: How many, >= 1; 1 for a decoding sequence.
        kv_len: Tokens in the cache before the step.
    """

    num_tokens: int
    kv_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCost(Record):
    """``a N^2 + b N + c`` seconds for ``N`` prompt tokens on an idle engine."""

    a_s_per_token2: Parameter
    b_s_per_token: Parameter
    c_s: Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCost(Record):
    """``base + per_sequence (B - 1) + per_kv_token K`` seconds for one token of each of ``B`` sequences.

    Attributes:
        base_s: One sequence with an empty cache: the weights are read once.
        per_sequence_s: Each further sequence of the batch.
        per_kv_token_s: Each of the ``K`` tokens in the caches of the batch.
    """

    base_s: Parameter
    per_sequence_s: Parameter
    per_kv_token_s: Parameter

    def __post_init__(self) -> None:
        require(self.base_s.value > 0, "base_s must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCost(Record):
    """``constant + per_token K`` seconds to move, or look through, the KV of ``K`` tokens."""

    constant_s: Parameter
    per_token_s: Parameter

    def time_s(self, num_tokens: int) -> float:
        """Returns the seconds for ``num_tokens``."""
        return self.constant_s.value + self.per_token_s.value * num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCost(Record):
    """What steps take longer behind a time in which the engine did nothing: its processor and caches have cooled.

    Attributes:
        prompt_s: A step with a prompt, if all is cold.
        decode_s: One without.
        kept: Share of the cold that a step leaves to the next one, 0 to 1.
        cools_s: In this time all but ``1 / e`` of the warmth is lost.
    """

    prompt_s: Parameter
    decode_s: Parameter
    kept: Parameter
    cools_s: Parameter

    def __post_init__(self) -> None:
        require(self.cools_s.value > 0, "cools_s must be > 0")
        require(0 <= self.kept.value <= 1, "kept must be in 0..1")


NO_IDLE_COST = IdleCost(prompt_s=_UNKNOWN, decode_s=_UNKNOWN, kept=_UNKNOWN, cools_s=_EXACT)
"""Of a profile that does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost(Record):
    """What the planner's own code adds to the engine's time, all on the one thread of the loop.

    Attributes:
        prepare_s: Making one request ready: prompt, parser, safety gate.
        prepare_per_token_s: And for each token of its prompt.
        step_s: Around one step: scheduling, reading the tokens, booking.
        step_per_sequence_s: And for each sequence that runs in it.
        transport_s: One way between the process that owns the goals and the one that plans.
        prediction_s: What the length predictor, on a thread of its own, adds to the step that begins a prompt.
        idle_s: What a request that comes to an idle planner takes longer on its way to the first step, if all is cold.
    """

    prepare_s: Parameter
    prepare_per_token_s: Parameter
    step_s: Parameter
    step_per_sequence_s: Parameter
    transport_s: Parameter
    prediction_s: Parameter = _UNKNOWN
    idle_s: Parameter = _UNKNOWN

    def preparation_s(self, num_prompt_tokens: int) -> float:
        """Returns the seconds to make a request with a prompt of ``num_prompt_tokens`` ready."""
        return self.prepare_s.value + self.prepare_per_token_s.value * num_prompt_tokens

    def around_step_s(self, num_seqs: int) -> float:
        """Returns the seconds that a step of ``num_seqs`` sequences takes outside of the engine."""
        return self.step_s.value + self.step_per_sequence_s.value * num_seqs


AUTO = "auto"
"""Names the profile that a planner measures by itself (``engine_profile``)."""
NO_HOST_COST = HostCost(
    prepare_s=_UNKNOWN,
    prepare_per_token_s=_UNKNOWN,
    step_s=_UNKNOWN,
    step_per_sequence_s=_UNKNOWN,
    transport_s=_UNKNOWN,
)
"""Of a profile that knows the engine alone."""
HOST_PROFILE = "planner-small-cpu"
"""The shipped profile whose host times were measured; the code around a step is the same for every engine."""
NO_MOVE_COST = MoveCost(constant_s=_UNKNOWN, per_token_s=_UNKNOWN)
"""Of a profile that does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile(Record):
    """What a simulated backend needs to know of an engine.

    Attributes:
        name: The file is ``<name>.yaml``.
        description: Model, device and where the numbers come from.
        device: What it runs on, as ``BackendInfo.device`` of the engine; empty if that is not known.
        first_steps: How many times longer than another one the first, second, ... decode step behind a prompt takes;
            empty if that is not known.
        idle: What the first steps behind an idle time take longer.
        resume: Of offloaded KV; a suspended generation whose KV stayed resumes at no cost.
        evict: An eviction from a cache, by its number of tokens, on top of the step in which it happens.
        host: What comes on top of the engine's own time.
        hides_prompts: Whether prompt tokens are computed while a decode step reads the weights, as on most
            accelerators; else they come on top of it, as on most CPUs.
        noise_ratio: How many times longer than expected 5 % of the steps took when it was measured, at least; 1 if that
            is not known.
        measured_at: When it was measured, in UTC and ISO 8601; empty if that is not known.
        capacity: How many robots it serves in time, if that was simulated (``llm-planner capacity curve``).
    """

    name: str
    description: str
    model: str
    num_kv_blocks: int
    block_size: int
    max_model_len: int
    prefill: PrefillCost
    decode: DecodeCost
    resume: MoveCost
    offload: MoveCost
    first_steps: tuple[Parameter, ...] = ()
    idle: IdleCost = NO_IDLE_COST
    evict: MoveCost = NO_MOVE_COST
    host: HostCost = NO_HOST_COST
    hides_prompts: bool = True
    device: str = ""
    noise_ratio: Parameter = _EXACT
    measured_at: str = ""
    capacity: CapacityData | None = None
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        require(min(self.num_kv_blocks, self.block_size, self.max_model_len) > 0, "sizes must be > 0")
        require(self.noise_ratio.value >= 1, "noise_ratio must be >= 1")

    def prefill_s(self, num_tokens: int, kv_len: int = 0) -> float:
        """Returns the seconds to compute ``num_tokens`` of a prompt behind ``kv_len`` cached ones.

        A prompt in chunks costs what it costs at once, but for one ``c`` per chunk.
        """
        cost = self.prefill
        square = (kv_len + num_tokens) ** 2 - kv_len**2
        return cost.a_s_per_token2.value * square + cost.b_s_per_token.value * num_tokens + cost.c_s.value

    def first_ratio(self, num_steps: int) -> float:
        """Returns how many times longer than another one the decode step ``num_steps`` >= 1 behind a prompt takes."""
        return self.first_steps[num_steps - 1].value if num_steps <= len(self.first_steps) else 1.0

    def step_s(self, chunks: Iterable[Chunk]) -> float:
        """Returns the seconds of a step that computes ``chunks``, prompts and decodes together.

        An engine that hides prompts reads its weights once per step: a step with both takes the longer of the two, and
        what each sequence adds on top. One that does not computes one after the other. A few tokens of one sequence,
        which the grammar forced or a draft guessed, are rows of the batch, as if each came from a sequence of its own.
        """
        prefill_s, num_seqs, num_decodes, kv_tokens = 0.0, 0, 0, 0
        for num_tokens, kv_len in chunks:
            kv_tokens += kv_len
            if num_tokens > MOST_DECODED_TOKENS:
                num_seqs += 1
                prefill_s += self.prefill_s(num_tokens, kv_len)
            else:
                num_seqs += num_tokens
                num_decodes += num_tokens
        if num_seqs == 0:
            return 0.0
        decode = self.decode
        kv_s = decode.per_kv_token_s.value * kv_tokens
        if self.hides_prompts:
            return max(decode.base_s.value, prefill_s) + decode.per_sequence_s.value * (num_seqs - 1) + kv_s
        decode_s = decode.base_s.value + decode.per_sequence_s.value * (num_decodes - 1) if num_decodes else 0.0
        return prefill_s + decode_s + kv_s


_ADAPTER = TypeAdapter(EngineProfile)


def load_profile(path: Path) -> EngineProfile:
    """Returns the profile of a YAML file.

    Raises:
        PlannerError: INVALID_FILE, with the file and the path of every coefficient that is missing, negative, not
            finite or unknown.
    """
    try:
        return validated(_ADAPTER, read_yaml(path))
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"profile {path} {error}") from error


def write_profile(profile: EngineProfile, path: Path) -> None:
    """Writes a profile as YAML, whole or not at all.

    Raises:
        OSError: If that cannot be done.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(yaml.safe_dump(_plain(asdict(profile)), sort_keys=False), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Source) else value


def find_profile(name: str) -> EngineProfile:
    """Returns a shipped profile by name, or the one of a file by its path.

    Raises:
        PlannerError: INVALID_CONFIG for a name of none, naming the shipped profiles; as ``load_profile``.
    """
    return load_profile(profile_path(name))


def profile_path(name: str) -> Path:
    """Returns the file of a shipped profile by name, or of a path; raises as ``find_profile``."""
    directory = share_dir() / "profiles"
    shipped = {path.stem: path for path in sorted(directory.glob("*.yaml"))}
    path = shipped.get(name, Path(name))
    if not (path.is_file() or path.suffix):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no engine profile {name!r}; known are {', '.join(shipped)}")
    return path


def served(profile: EngineProfile) -> EngineProfile:
    """Returns a profile with the planner's own time around every step, as measured where the profile has none."""
    return profile if profile.host != NO_HOST_COST else replace(profile, host=find_profile(HOST_PROFILE).host)
