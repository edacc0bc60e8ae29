"""``llm-planner profile``: measures an engine, step by step, and writes its profile."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.prediction.profile import DecodeCost, EngineProfile, MoveCost, PrefillCost
from llm_planner.robots.timing import Parameter, Source

BATCH_SIZES = (1, 2, 4, 8, 16)
KV_LENGTHS = (32, 256, 1024)
PROMPT_LENGTHS = (32, 64, 128, 256, 512, 1024)


@dataclass(slots=True)
class Prober:
    """Drives a backend through single steps; 10th percentiles, which tell what the machine takes when left alone.

    Args:
        backend: The engine.
        num_repeats: Steps per point.
        seed: Of the random prompts: timing does not depend on what they say.
        vocabulary: Token ids are drawn below this.
    """

    backend: Backend
    num_repeats: int = 9
    seed: int = 0
    vocabulary: int = 100
    _num_requests: int = 0
    _rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._rng.seed(self.seed)

    def prefill_s(self, num_tokens: int) -> float:
        """Returns the seconds of a prompt of ``num_tokens`` on an idle engine."""
        times_s: list[float] = []
        for _ in range(self.num_repeats):
            (name,), output = self._start(1, num_tokens)
            times_s.append(output.duration_s)
            self._release([name])
        return _quick_s(times_s)

    def decode_s(self, num_seqs: int, kv_len: int) -> float:
        """Returns the seconds of a step that decodes ``num_seqs`` sequences with ``kv_len`` tokens each.

        A sequence that the model ends is replaced by another of the same length, outside of what is measured.
        """
        names, output = self._start(num_seqs, kv_len)
        times_s: list[float] = []
        for _ in range(self.num_repeats):
            ended = [name for name in names if name in output.finished]
            self._release(ended)
            fresh = self._start(len(ended), kv_len)[0] if ended else []
            names = [name for name in names if name not in ended] + fresh
            output = self.backend.execute(SchedulerOutput(num_scheduled_tokens=dict.fromkeys(names, 1)))
            times_s.append(output.duration_s)
        self._release(names)
        return _quick_s(times_s)

    def move_s(self, num_tokens: int) -> tuple[float, float]:
        """Returns the seconds to offload and to restore the KV of ``num_tokens``."""
        offload_s: list[float] = []
        restore_s: list[float] = []
        for _ in range(self.num_repeats):
            (name,), _ = self._start(1, num_tokens)
            offload_s.append(self.backend.execute(SchedulerOutput(offload=(name,))).duration_s)
            restore_s.append(self.backend.execute(SchedulerOutput(restore=(name,))).duration_s)
            self._release([name])
        return _quick_s(offload_s), _quick_s(restore_s)

    def _start(self, num_seqs: int, num_tokens: int) -> tuple[list[str], StepOutput]:
        names = [f"probe-{self._num_requests + index}" for index in range(num_seqs)]
        self._num_requests += num_seqs
        new = tuple(TokenSequence(request_id=name, prompt_token_ids=self._prompt(num_tokens)) for name in names)
        scheduled = SchedulerOutput(new=new, num_scheduled_tokens=dict.fromkeys(names, num_tokens))
        return names, self.backend.execute(scheduled)

    def _prompt(self, num_tokens: int) -> tuple[int, ...]:
        return tuple(self._rng.randrange(3, self.vocabulary) for _ in range(num_tokens))

    def _release(self, names: Sequence[str]) -> None:
        if names:
            self.backend.execute(SchedulerOutput(release=tuple(names)))


def _quick_s(times_s: list[float]) -> float:
    return statistics.quantiles(times_s, n=10, method="inclusive")[0]


def measure_profile(
    prober: Prober, name: str, description: str, note: Callable[[str], None] = lambda _: None
) -> EngineProfile:
    """Returns the profile of the prober's engine; sizes that do not fit into it are left out."""
    info = prober.backend.info
    room_tokens = min(info.max_model_len, info.num_kv_blocks * info.block_size) - 2 * prober.num_repeats
    prober.decode_s(1, KV_LENGTHS[0])  # warm
    decodes = [(b, k) for b in BATCH_SIZES for k in KV_LENGTHS if b * (k + 2 * prober.num_repeats) < room_tokens]
    decode_s = [prober.decode_s(*point) for point in decodes]
    note(f"decode: {len(decodes)} points, one sequence {1000 * decode_s[0]:.2f} ms")
    prompts = [n for n in PROMPT_LENGTHS if n < room_tokens]
    prefill_s = [prober.prefill_s(n) for n in prompts]
    note(f"prefill: {prompts[-1]} tokens {1000 * prefill_s[-1]:.2f} ms")
    base_s, per_sequence_s, per_kv_s = _fit([(1.0, b - 1.0, b * float(k)) for b, k in decodes], decode_s)
    c_s, b_s, a_s = _fit([(1.0, float(n), float(n * n)) for n in prompts], prefill_s)
    offload, restore = _moves(prober, prompts) if info.can_offload else (_move_cost((0.0, 0.0)),) * 2
    return EngineProfile(
        name=name,
        description=description,
        model=info.model,
        num_kv_blocks=info.num_kv_blocks,
        block_size=info.block_size,
        max_model_len=info.max_model_len,
        prefill=PrefillCost(a_s_per_token2=_measured(a_s), b_s_per_token=_measured(b_s), c_s=_measured(c_s)),
        decode=DecodeCost(
            base_s=_measured(base_s), per_sequence_s=_measured(per_sequence_s), per_kv_token_s=_measured(per_kv_s)
        ),
        resume=restore,
        offload=offload,
    )


def _moves(prober: Prober, lengths: Sequence[int]) -> tuple[MoveCost, MoveCost]:
    moves = [prober.move_s(n) for n in lengths]
    rows = [(1.0, float(n)) for n in lengths]
    return _move_cost(_fit(rows, [m[0] for m in moves])), _move_cost(_fit(rows, [m[1] for m in moves]))


def _move_cost(fitted: Sequence[float]) -> MoveCost:
    return MoveCost(constant_s=_measured(fitted[0]), per_token_s=_measured(fitted[1]))


def _measured(value: float) -> Parameter:
    return Parameter(value=float(f"{value:.4g}"), source=Source.MEASURED)


def _fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Returns least-squares coefficients >= 0, every point weighing by its relative error.

    A column whose coefficient comes out negative is noise: it is taken out and the rest fitted again.
    """
    matrix, target = np.array(rows), np.array(values)
    matrix, target = matrix / target[:, None], np.ones_like(target)
    columns = list(range(matrix.shape[1]))
    while True:
        solution = np.linalg.lstsq(matrix[:, columns], target, rcond=None)[0]
        negative = [column for column, value in zip(columns, solution, strict=True) if value < 0]
        if not negative:
            break
        columns.remove(negative[-1])
    coefficients = [0.0] * matrix.shape[1]
    for column, value in zip(columns, solution, strict=True):
        coefficients[column] = float(value)
    return coefficients


def write_profile(profile: EngineProfile, path: Path) -> None:
    """Writes a profile as YAML."""
    document: dict[str, Any] = _plain(asdict(profile))
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _plain(value: Any) -> Any:  # noqa: ANN401 (YAML)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.value if isinstance(value, Source) else value
