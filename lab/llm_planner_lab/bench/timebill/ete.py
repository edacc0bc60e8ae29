# SPDX-License-Identifier: Apache-2.0
"""The execution times of ``llm-planner bench timebill``: fits and their errors, and whole responses (Figs. 5, 6)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from llm_planner.core.eviction import num_removable_tokens, num_removed_tokens
from llm_planner.core.interfaces import Backend
from llm_planner.prediction.execution_time import ProfiledTime
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
from llm_planner_lab.bench.timebill.replay import NOTHING

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
    backend: Backend, grammar: str, grid: Grid, on_progress: Callable[[str, float], None]
) -> tuple[EngineProfile, dict[str, Any]]:
    """Returns the profile of an engine, and ``prefill_mape``, ``decode_mape`` and the noise floors of the fit.

    The errors are those of a fit to one half of the points on single steps of the other half; ``decode_run_mape`` is
    the same for the mean of ``grid.run_steps`` steps in a row. Estimates are made of runs, never of a single step.

    Args:
        backend: The engine.
        grammar: Under which it decodes, as in service.
        grid: What to measure.
        on_progress: Receives what goes on.
    """
    prober = Prober(backend, num_repeats=grid.num_repeats, grammar=grammar)
    decodes = [(b, k) for b in grid.batches for k in grid.caches if b * k <= grid.max_kv_tokens]
    prober.decode(0, *decodes[0])  # warm
    prober.prefill(0, grid.prompts[-1])
    prober.samples.clear()
    for number in range(ROUNDS):
        on_progress("execution times", number / ROUNDS)
        for point, (num_seqs, kv_len) in enumerate(decodes):
            prober.decode(point, num_seqs, kv_len, RUNS_PER_ROUND * grid.run_steps)
        for point, num_tokens in enumerate(grid.prompts):
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
        "num_steps": sum(sample.kind is not StepKind.FIRST_DECODE for sample in prober.samples),
    }


def measure_end_to_end(lab: Lab) -> Mapping[str, Any]:
    """Returns measured, predicted and worst-case seconds of whole responses, vanilla and at every fixed ratio.

    A response ends where it does in service: of a model that is stuck, where its plan is refused. That is also what the
    predictor was taught.

    Predicted is Eq. (8) with the predicted length, the worst case Eq. (9) with ``k`` times that, at most N_max. Both
    are those of the paper: the end of the most probable bucket, the profile uncorrected, alone. With it comes the worst
    case that the planner counts on (``Task.pessimistic_tokens``): from the whole distribution, N_max where KV is gone.
    """
    time, rows, bounds = ProfiledTime(lab.profile), [], []
    for job in lab.jobs:
        prepared, length = lab.prepared(job.name)
        sequence = prepared.sequence
        for alpha in (0.0, *ALPHAS):
            num_removed = num_removed_tokens(sequence, alpha)
            steps = lab.response(job, (1, num_removed) if num_removed else NOTHING)
            task = Task(
                num_uncomputed_tokens=len(sequence.prompt_token_ids) - sequence.num_cached_tokens,
                kv_len=sequence.num_cached_tokens,
                num_removable_tokens=num_removable_tokens(sequence),
                lengths=Lengths(expected=length.bucket_upper_tokens),
                max_tokens=lab.max_tokens,
            )
            setup, measured_s = Setup(num_removed_tokens=num_removed), sum(step.duration_s for step in steps)
            predicted_s = execution_s(task, task.pessimistic_tokens(1.0), setup, time)
            wcet_s = execution_s(task, task.pessimistic_tokens(PESSIMISM), setup, time)
            true_s = execution_s(task, len(steps), setup, time)
            own = replace(task, lengths=_lengths(length), is_evicted=num_removed > 0)
            own_s = execution_s(task, own.pessimistic_tokens(PESSIMISM), setup, time)
            bounds.append((wcet_s / measured_s, own_s / measured_s))
            rows.append((alpha, measured_s, predicted_s, wcet_s, true_s))
    return {
        "wcet_share": fmean(measured_s <= wcet_s for _, measured_s, _, wcet_s, _ in rows),
        "wcet_share_by_ratio": {
            f"{ratio:g}": fmean(measured_s <= wcet_s for alpha, measured_s, _, wcet_s, _ in rows if alpha == ratio)
            for ratio in (0.0, *ALPHAS)
        },
        "wcet_share_planner": fmean(own >= 1.0 for _, own in bounds),
        "wcet_over_measured": fmean(paper for paper, _ in bounds),
        "wcet_over_measured_planner": fmean(own for _, own in bounds),
        "n": len(rows),
        "mape": fmean(abs(predicted_s / measured_s - 1.0) for _, measured_s, predicted_s, _, _ in rows),
        "mape_true_length": fmean(abs(true_s / measured_s - 1.0) for _, measured_s, _, _, true_s in rows),
        "vanilla": [
            {"measured_s": measured_s, "predicted_s": predicted_s, "wcet_s": wcet_s}
            for alpha, measured_s, predicted_s, wcet_s, _ in rows
            if alpha == 0.0
        ],
    }


def _lengths(length: LengthDistribution) -> Lengths:
    """Returns what the planner knows of a length before the prefill."""
    lower, upper = length.interval(SURE)
    return Lengths(lower=lower, expected=length.expected_tokens, upper=upper)
