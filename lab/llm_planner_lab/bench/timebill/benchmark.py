# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench timebill``: the evaluation of TimeBill, section 6, on the planner's own engine."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llm_planner.assembly import build_library, plan_preparer
from llm_planner.checkpoints import build_length_predictor, build_prompt_encoder, resolve_model
from llm_planner.core.clock import MonotonicClock, ProcessorClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.planning.grammar import lark_grammar
from llm_planner.serving.prompt_encoder import PromptEncoder
from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.bench.timebill.ete import Grid, measure_end_to_end, measure_ete
from llm_planner_lab.bench.timebill.jobs import Workload, draw_jobs
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.length import length_figures
from llm_planner_lab.bench.timebill.preparers import SparablePreparer, WholeScenePreparer
from llm_planner_lab.bench.timebill.quality import measure_quality
from llm_planner_lab.bench.timebill.reference import Reference
from llm_planner_lab.bench.timebill.replay import ReplayedEngine
from llm_planner_lab.bench.timebill.sweep import (
    CONCURRENT_FRACTIONS,
    FRACTIONS,
    K_FRACTION,
    K_VALUES,
    Progress,
    run_concurrent,
    run_k_sweep,
    run_sweep,
    sweep_figures,
)
from llm_planner_lab.bench.timebill.truncation import run_truncation
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.checkout import commit

if TYPE_CHECKING:
    from llm_planner.engine.backend import TorchBackend

TIME = (
    "virtual: one request after the other in the planner's own loop, whose steps take what they took on the live "
    "engine; every distinct generation is measured once and replayed for every budget and strategy"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBillBench:
    """What is measured.

    Attributes:
        planner: Whose model, engine and predictor.
        cpu_time: Count processor time, which other programs disturb less; sensible with one thread on a CPU.
        workload: The tasks.
        further_per_class: Further tasks of each class, whose whole responses are held against their worst cases.
        grid: Of the execution times.
        fractions: Budgets, as shares of the vanilla time of their class.
        k_values: Pessimistic factors, at ``k_fraction``.
        num_robots: That ask at the same moment, in the part under load; each asks ``num_waves`` times.
    """

    planner: PlannerConfig
    cpu_time: bool = False
    workload: Workload = field(default_factory=Workload)
    further_per_class: int = 50
    grid: Grid = field(default_factory=Grid)
    fractions: tuple[float, ...] = FRACTIONS
    k_values: tuple[float, ...] = K_VALUES
    k_fraction: float = K_FRACTION
    num_robots: int = 4
    num_waves: int = 4
    concurrent_fractions: tuple[float, ...] = CONCURRENT_FRACTIONS


def quick(bench: TimeBillBench) -> TimeBillBench:
    """Returns a bench that takes about a minute: its figures show that everything works, and no more."""
    return replace(
        bench,
        workload=replace(bench.workload, num_seeds=1, per_class=2),
        further_per_class=1,
        grid=replace(bench.grid, num_repeats=3, batches=(1,)),
        fractions=(0.8, 1.0),
        k_values=(1.0, 5.0),
        num_robots=2,
        num_waves=1,
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine that was measured, and the lab around it.

    Attributes:
        encoder: Of the model's prompts.
        ete: How exactly execution times are predicted (``measure_ete``).
        lengths: How exactly lengths are (``length_figures``).
    """

    backend: "TorchBackend"
    lab: Lab
    encoder: PromptEncoder
    reference: Reference
    ete: Mapping[str, Any]
    lengths: Mapping[str, Any]


@contextmanager
def open_lab(bench: TimeBillBench, on_progress: Progress) -> Iterator[Opened]:
    """Loads model and predictor, measures the engine, and yields the lab with its jobs, all measured.

    Raises:
        PlannerError: MODEL_NOT_FOUND if the model has no length predictor, INVALID_CONFIG if it is another model's.
    """
    from llm_planner.engine.backend import TorchBackend

    clock = ProcessorClock() if bench.cpu_time else MonotonicClock()
    model, engine_config = resolve_model(bench.planner.engine.model), bench.planner.engine
    lengths = length_figures(model)
    predictor = build_length_predictor(bench.planner)
    if predictor is None:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "length_predictor is empty; TimeBill needs one: leave it at auto")
    library, encoder = build_library(bench.planner), build_prompt_encoder(model)
    on_progress("drawing tasks", 0.0)
    jobs = draw_jobs(bench.workload, encoder, library)
    backend = TorchBackend(
        model,
        device=engine_config.device,
        dtype=engine_config.dtype,
        num_kv_blocks=engine_config.num_kv_blocks,
        block_size=engine_config.block_size,
        num_threads=engine_config.num_threads,
        eviction_method=engine_config.eviction_method,
        lookahead="off",
        clock=clock,
    )
    try:
        grammar = lark_grammar(library.get(min(library.names())))
        reference = Reference.of(backend, grammar)
        profile, ete = measure_ete(backend, grammar, bench.grid, on_progress, reference.measure)
        replayed = ReplayedEngine(backend, bench.workload.max_tokens, reference.measure)
        plans, whole = (
            preparer(
                backend=replayed,
                tokenizer=backend.tokenizer,
                library=library,
                style=encoder.style,
                markup=encoder.markup,
            )
            for preparer in (SparablePreparer, WholeScenePreparer)
        )
        service = plan_preparer(bench.planner, replayed, library, encoder)
        lab = Lab(replayed, plans, whole, service, predictor, library, profile, jobs, bench.workload, clock)
        lab.measure_jobs(on_progress)
        yield Opened(backend, lab, encoder, reference, ete, lengths)
    finally:
        backend.close()


def run_timebill(bench: TimeBillBench, on_progress: Progress) -> dict[str, Any]:
    """Returns the JSON document.

    Raises:
        PlannerError: MODEL_NOT_FOUND if the model has no length predictor, INVALID_CONFIG if it is another model's.
    """
    began_s = time.monotonic()
    work = bench.workload
    with open_lab(bench, on_progress) as opened:
        lab, backend, ete = opened.lab, opened.backend, opened.ete
        jobs = lab.jobs
        on_progress("whole responses", 0.0)
        more = replace(
            work, first_seed=work.first_seed + work.num_seeds, num_seeds=1, per_class=bench.further_per_class
        )
        further_jobs = draw_jobs(more, opened.encoder, lab.library)
        end_to_end = measure_end_to_end(lab.with_more(further_jobs), ete["reference_s"])
        quality = measure_quality(lab, on_progress)
        sweep = sweep_figures(run_sweep(lab, bench.fractions, on_progress))
        truncation = run_truncation(lab, bench.fractions, backend.tokenizer.encode, on_progress)
        k_sweep = run_k_sweep(lab, bench.k_fraction, bench.k_values, on_progress)
        loaded_jobs = jobs[: bench.num_robots * bench.num_waves]
        concurrent = run_concurrent(lab, loaded_jobs, bench.num_robots, bench.concurrent_fractions, on_progress)
    took_ms = sorted(1000.0 * took_s for took_s in lab.took_s)
    lengths = opened.lengths
    document = {
        "ete": {**ete, "end_to_end": end_to_end, "reference": opened.reference.figures()},
        "rlp": lengths["rlp"],
        "interval_coverage_90": lengths["interval_coverage_90"],
        "wcet_share": end_to_end["wcet_share"],
        "solver_ms": {"p50": quantile(took_ms, 0.5), "p99": quantile(took_ms, 0.99), "n": len(took_ms)},
        "quality": quality,
        **sweep,
        "truncation": truncation,
        "k_sweep": k_sweep,
        "concurrent": concurrent,
        "setup": {
            **setup_figures(bench, opened, began_s),
            "num_further_tasks": len(further_jobs),
            "k_fraction": bench.k_fraction,
        },
    }
    return dict(rounded(document))


def setup_figures(bench: TimeBillBench, opened: Opened, began_s: float) -> dict[str, Any]:
    """Returns what was measured with what; ``began_s`` is monotonic."""
    lab, info = opened.lab, opened.backend.info
    return {
        "model": info.model,
        "device": info.device,
        "num_threads": bench.planner.engine.num_threads,
        "commit": commit(),
        "time": TIME,
        "clock": "processor time" if bench.cpu_time else "wall time",
        "took_s": time.monotonic() - began_s,
        "eviction_method": bench.planner.engine.eviction_method,
        "num_seeds": lab.workload.num_seeds,
        "first_seed": lab.workload.first_seed,
        "num_tasks": len(lab.jobs),
        "max_tokens": lab.workload.max_tokens,
        "num_generations": lab.engine.num_measured,
        "predict_ms_mean": 1000.0 * sum(lab.predict_s.values()) / len(lab.predict_s),
        "classes": lab.classes(lab.workload.classes),
    }
