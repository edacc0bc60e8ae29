# SPDX-License-Identifier: Apache-2.0
"""The whole profile of a planner on this machine: its engine, step by step, and its own process around it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from llm_planner.assembly import build_engine, build_library
from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Backend
from llm_planner.planning.grammar import lark_grammar
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.samples import StepSample
from llm_planner_lab.bench.host import measure_host
from llm_planner_lab.bench.profile import Prober, hides_prompts, make_profile, measure
from llm_planner_lab.bench.whole_steps import WholeSteps


def profile_planner(
    config: PlannerConfig, name: str, num_repeats: int, note: Callable[[str], None] = lambda _: None
) -> tuple[EngineProfile, Sequence[StepSample]]:
    """Returns the profile of the planner of ``config`` on this machine, and the steps that it was fitted to.

    Decoding is measured under the grammar of a robot model, as in service.

    Args:
        config: Whose engine, model and robots are measured.
        name: Of the profile.
        num_repeats: Steps per point, and repeats of everything else, >= 3.
        note: Receives what is going on.
    """
    library = build_library(config)
    backend: Backend = build_engine(config)
    if backend.info.keeps_kv:
        backend = WholeSteps(backend)
    grammar = lark_grammar(library.get(min(library.names())))
    samples = measure(Prober(backend, num_repeats=num_repeats, grammar=grammar), note)
    are_hidden = hides_prompts(Prober(backend, num_repeats=num_repeats, grammar=grammar))
    note(f"prompts are {'' if are_hidden else 'not '}computed while decoding sequences read the weights")
    description = f"{backend.info.model} on {backend.info.device}, measured by llm-planner profile"
    profile = make_profile(samples, backend, name, description, hides_prompts=are_hidden)
    backend.close()
    host = measure_host(config, num_repeats)
    around_ms, preparing_ms = 1000 * host.around_step_s(1), 1000 * host.prepare_s.value
    note(f"around a step: {around_ms:.2f} ms; to make a request ready: {preparing_ms:.2f} ms")
    return replace(profile, host=host), samples
