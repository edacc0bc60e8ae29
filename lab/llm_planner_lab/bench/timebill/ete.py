# SPDX-License-Identifier: Apache-2.0
"""The execution times of ``llm-planner bench timebill``: fits and their errors, and whole responses (Figs. 5, 6)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from llm_planner.core.eviction import num_removable_tokens, num_removed_tokens
from llm_planner.core.interfaces import Backend
from llm_planner.prediction.execution_time import ProfiledTime, ProfiledTimes
from llm_planner.prediction.fit import averaged, held_out_accuracy
from llm_planner.prediction.length import LengthDistribution
from llm_planner.prediction.measurement import held, hides_prompts, make_profile
from llm_planner.prediction.prober import ROUNDS, Prober
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.samples import StepKind
from llm_planner.scheduling.budget import PESSIMISM, Lengths, Setup, Task, execution_s
from llm_planner.serving.expected_lengths import SURE
from llm_planner_lab.bench.planner_profile import THOROUGH
from llm_planner_lab.bench.timebill.approaches import ALPHAS
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.replay import NOTHING, MeasuredStep

RUNS_PER_ROUND = 2
"""Runs of decode steps per point and round: the median of too few runs is close to each, whatever the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Which steps are measured: as long as those of the sweep, prompts in one piece.

    Attributes:
        prompts: Tokens.
        caches: Tokens of each sequence that decodes.
        batches: Sequences.
        evicted: Tokens of caches half of which are evicted.
        max_kv_tokens: Of a batch.
        num_repeats: Prompts per point.
        run_steps: Decode steps of a run, as many as a short plan has.
    """

    prompts: tuple[int, ...] = (64, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560)
    caches: tuple[int, ...] = (32, 128, 256, 512, 1024, 1536, 2048, 2560)
    batches: tuple[int, ...] = (1, 2, 4)
    evicted: tuple[int, ...] = (512, 1024, 2048)
    max_kv_tokens: int = 4200
    num_repeats: int = 15
    run_steps: int = 16


def measure_ete(
    backend: Backend,
    grammar: str,
    grid: Grid,
    on_progress: Callable[[str, float], None],
    reference: Callable[[], float] = lambda: 0.0,
) -> tuple[EngineProfile, dict[str, Any]]:
    """Returns the profile of an engine, and ``prefill_mape``, ``decode_mape`` and the noise floors of the fit.

    The errors are those of a fit to one half of the points on single steps of the other half; ``decode_run_mape`` is
    the same for the mean of ``grid.run_steps`` steps in a row. Estimates are made of runs, never of a single step.

    Args:
        backend: The engine.
        grammar: Under which it decodes, as in service.
        grid: What to measure.
        on_progress: Receives what goes on.
        reference: Times the same piece of work on the engine, once in each round and point; the median is
            ``reference_s``.
    """
    prober, references_s = Prober(backend, num_repeats=grid.num_repeats, grammar=grammar), []
    decodes = [(b, k) for b in grid.batches for k in grid.caches if b * k <= grid.max_kv_tokens]
    prober.decode(0, *decodes[0])  # warm
    prober.prefill(0, grid.prompts[-1])
    prober.samples.clear()
    for number in range(ROUNDS):
        on_progress("execution times", number / ROUNDS)
        for point, (num_seqs, kv_len) in enumerate(decodes):
            references_s.append(reference())
            prober.decode(point, num_seqs, kv_len, RUNS_PER_ROUND * grid.run_steps)
        for point, num_tokens in enumerate(grid.prompts):
            references_s.append(reference())
            prober.prefill(point, num_tokens)
        for point, num_tokens in enumerate(grid.evicted):
            if num_tokens + 1 < backend.info.max_model_len:  # and the token behind it
                prober.evict(point, num_tokens)
    mixed = Prober(backend, num_repeats=grid.num_repeats, grammar=grammar)
    are_hidden = hides_prompts(mixed, held(THOROUGH, mixed).alongside)
    name = f"{backend.info.model}, measured by this run"
    profile = make_profile(prober.samples, backend, "timebill", name, hides_prompts=are_hidden)
    of_kind = held_out_accuracy(prober.samples)
    prefill, decode = of_kind[StepKind.PREFILL], of_kind[StepKind.DECODE]
    prompts = [sample for sample in prober.samples if sample.kind is StepKind.PREFILL]
    steps = [sample for sample in prober.samples if sample.kind is StepKind.DECODE]
    run = held_out_accuracy([*prompts, *averaged(steps, grid.run_steps)])[StepKind.DECODE]
    return profile, {
        "prefill_mape": prefill.mape,
        "decode_mape": decode.mape,
        "noise_floor": max(prefill.noise_floor, decode.noise_floor),
        "prefill_noise_floor": prefill.noise_floor,
        "decode_noise_floor": decode.noise_floor,
        "decode_run_mape": run.mape,
        "decode_run_noise_floor": run.noise_floor,
        "run_steps": grid.run_steps,
        "reference_s": median(references_s),
        "num_steps": sum(sample.kind is not StepKind.FIRST_DECODE for sample in prober.samples),
    }


@dataclass(frozen=True, slots=True)
class _Response:
    """A whole response: what it took, and what was said of it before.

    Attributes:
        evicted: KV ratio.
        measured_s: Of all its steps.
        served_s: Of those that service would have run: until the plan is not understood. None if service answers at
            once.
        slowdown: Of the machine, right before: the reference over what it took while the profile was measured.
        predicted_s: By the paper's mode: with the profile, and with the profile corrected by the responses before.
        wcet_s: The same times ``k``.
        wcet_planner_s: The worst case that the planner counts on.
        known_s: As ``predicted_s``, had the length been known.
    """

    evicted: float
    measured_s: float
    served_s: float | None
    slowdown: float
    predicted_s: tuple[float, ...]
    wcet_s: float
    wcet_planner_s: float
    known_s: tuple[float, ...]


def measure_end_to_end(lab: Lab, reference_s: float) -> Mapping[str, Any]:
    """Returns measured, predicted and worst-case seconds of whole responses, vanilla and at every fixed ratio.

    A response ends with its plan; of a model that is stuck, where the gate refuses it. That is also what the predictor
    was taught. The planner's worst case is also held against what service runs of it: a plan that is not understood
    ends there.

    Predicted is Eq. (8) with the predicted length, the worst case Eq. (9) with ``k`` times that, at most N_max. Both
    are those of the paper: the end of the most probable bucket, the profile uncorrected, alone. With it comes the worst
    case that the planner counts on (``Task.pessimistic_tokens``): from the whole distribution, N_max where KV is gone,
    at the cautious step times that it has learned by then.

    Errors are given three times: as they are; ``steady``, where what a response took is divided by how much slower the
    machine was than while the profile was measured; ``corrected``, where the profile is corrected by every step
    before, as in service. Each is also given for a length that is known.

    Args:
        lab: Its jobs have been measured.
        reference_s: What the reference took while the profile was measured; 0 if there is none.
    """
    rows = list(_responses(lab, reference_s))
    ratios = [ratio for ratio in (0.0, *ALPHAS) if any(row.evicted == ratio for row in rows)]
    errors = {
        "": [_errors(row, 0, 1.0) for row in rows],
        "_steady": [_errors(row, 0, row.slowdown) for row in rows],
        "_corrected": [_errors(row, 1, 1.0) for row in rows],
    }
    return {
        "wcet_share": fmean(row.measured_s <= row.wcet_s for row in rows),
        "wcet_share_by_ratio": {
            f"{ratio:g}": fmean(row.measured_s <= row.wcet_s for row in rows if row.evicted == ratio)
            for ratio in ratios
        },
        "num_by_ratio": {f"{ratio:g}": sum(row.evicted == ratio for row in rows) for ratio in ratios},
        "wcet_share_planner": fmean(row.measured_s <= row.wcet_planner_s for row in rows),
        "wcet_share_served": fmean(row.served_s <= row.wcet_planner_s for row in rows if row.served_s is not None),
        "num_served": sum(row.served_s is not None for row in rows),
        "wcet_over_measured": fmean(row.wcet_s / row.measured_s for row in rows),
        "wcet_over_measured_planner": fmean(row.wcet_planner_s / row.measured_s for row in rows),
        "n": len(rows),
        **{f"mape{name}": fmean(predicted for predicted, _ in of_rows) for name, of_rows in errors.items()},
        **{f"mape_true_length{name}": fmean(known for _, known in of_rows) for name, of_rows in errors.items()},
        "vanilla": [
            {"measured_s": row.measured_s, "predicted_s": row.predicted_s[0], "wcet_s": row.wcet_s}
            for row in rows
            if row.evicted == 0.0
        ],
    }


def _errors(row: _Response, way: int, slowdown: float) -> tuple[float, float]:
    measured_s = row.measured_s / slowdown
    return abs(row.predicted_s[way] / measured_s - 1.0), abs(row.known_s[way] / measured_s - 1.0)


def _responses(lab: Lab, reference_s: float) -> Iterator[_Response]:
    """Yields the responses in the order in which they were, or are now, measured: the correction learns from each.

    A ratio at which nothing, or no more than at another, can be evicted of a prompt is no response of its own.
    """
    seen: set[tuple[str, int]] = set()
    time, times = ProfiledTime(lab.profile), ProfiledTimes(lab.profile)
    vanilla = [(job, 0.0) for job in lab.jobs]
    for job, alpha in (*vanilla, *((job, alpha) for job in lab.jobs for alpha in ALPHAS)):
        prepared, length = lab.prepared(job.name, by_need=True)
        sequence = prepared.sequence
        num_removed = num_removed_tokens(sequence, alpha)
        if (job.name, num_removed) in seen:
            continue
        seen.add((job.name, num_removed))
        evicted = (1, num_removed) if num_removed else NOTHING
        steps = lab.response(job, evicted)
        task = Task(
            num_uncomputed_tokens=len(sequence.prompt_token_ids) - sequence.num_cached_tokens,
            kv_len=sequence.num_cached_tokens,
            num_removable_tokens=num_removable_tokens(sequence),
            lengths=Lengths(expected=length.bucket_upper_tokens),
            max_tokens=lab.max_tokens,
        )
        served = lab.served(job, steps)
        own = replace(task, lengths=_lengths(length), is_evicted=num_removed > 0)
        setup, ways = Setup(num_removed_tokens=num_removed), (time, times.expected)
        num_expected, num_written = task.pessimistic_tokens(1.0), len(steps)
        yield _Response(
            evicted=alpha,
            measured_s=sum(step.duration_s for step in steps),
            served_s=sum(step.duration_s for step in served) if served else None,
            slowdown=lab.engine.reference_s(sequence, evicted) / reference_s if reference_s else 1.0,
            predicted_s=tuple(execution_s(task, num_expected, setup, way) for way in ways),
            wcet_s=execution_s(task, task.pessimistic_tokens(PESSIMISM), setup, time),
            wcet_planner_s=execution_s(task, own.pessimistic_tokens(PESSIMISM), setup, times.cautious),
            known_s=tuple(execution_s(task, num_written, setup, way) for way in ways),
        )
        _learn(times, task, steps, num_removed)


def _learn(times: ProfiledTimes, task: Task, steps: Sequence[MeasuredStep], num_removed: int) -> None:
    """Passes on what service passes on: every step but the one that evicts."""
    times.observe([(task.num_uncomputed_tokens, task.kv_len)], steps[0].duration_s)
    kv_len = task.kv_len + task.num_uncomputed_tokens - num_removed
    for number, step in enumerate(steps[1:]):
        if number or not num_removed:
            times.observe([(1, kv_len)], step.duration_s)
        kv_len += 1


def _lengths(length: LengthDistribution) -> Lengths:
    """Returns what the planner knows of a length before the prefill."""
    lower, upper = length.interval(SURE)
    return Lengths(lower=lower, expected=length.expected_tokens, upper=upper)
