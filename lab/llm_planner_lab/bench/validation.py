# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench validate``: the same trace live and simulated, response times compared request by request."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from llm_planner.core.errors import ErrorCode
from llm_planner.prediction.profile import EngineProfile
from llm_planner_lab.bench.survey import Survey
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench
from llm_planner_lab.bench.timely.metrics import distribution, quantile
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.records import RequestRecord, RunRecord
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate


class Pair(NamedTuple):
    """Response times of one request that was served in both runs."""

    request_id: str
    live_s: float
    simulated_s: float

    @property
    def error(self) -> float:
        """By how much the simulation is off, as a fraction of what happened; positive if it is too slow."""
        return self.simulated_s / self.live_s - 1.0


def pairs_of(live: RunRecord, simulated: RunRecord) -> list[Pair]:
    """Returns the requests that both runs served, in the order of the live run."""
    known = {record.request_id: record for record in simulated.requests}
    return [
        Pair(record.request_id, *times_s)
        for record in live.requests
        if (times_s := _both(record, known.get(record.request_id))) is not None
    ]


def _both(live: RequestRecord, simulated: RequestRecord | None) -> tuple[float, float] | None:
    if simulated is None or live.error_code is not ErrorCode.NONE or simulated.error_code is not ErrorCode.NONE:
        return None
    live_s, simulated_s = live.response_time_s, simulated.response_time_s
    return None if live_s is None or simulated_s is None else (live_s, simulated_s)


def comparison(pairs: Sequence[Pair], live: RunRecord, simulated: RunRecord, slowness: float = 1.0) -> dict[str, Any]:
    """Returns how far the simulation is off, as JSON.

    Args:
        pairs: Of both runs.
        live: What happened.
        simulated: What the profile makes of it.
        slowness: How many times longer the simulation takes where nothing else is going on. ``corrected`` is without
            it: a machine that is quicker or slower than when its profile was measured is found out so, as in service.
    """
    return {
        "n": len(pairs),
        "num_not_served": len(live.requests) - len(pairs),
        "relative_error": _relative_error(pairs),
        "corrected": _relative_error([pair._replace(simulated_s=pair.simulated_s / slowness) for pair in pairs]),
        "response_time_s": {
            "live": distribution([pair.live_s for pair in pairs]),
            "simulated": distribution([pair.simulated_s for pair in pairs]),
        },
        "busy_share": live.busy_share,
        "busy_s": {"live": live.busy_s, "simulated": simulated.busy_s},
        "num_steps": {"live": live.num_steps, "simulated": simulated.num_steps},
        "step_s": {"live": _mean_step_s(live), "simulated": _mean_step_s(simulated)},
        "pairs_s": [[pair.request_id, pair.live_s, pair.simulated_s] for pair in pairs],
    }


def _relative_error(pairs: Sequence[Pair]) -> dict[str, float | None]:
    errors = sorted(abs(pair.error) for pair in pairs)
    return {
        "median": quantile(errors, 0.5) if errors else None,
        "p90": quantile(errors, 0.9) if errors else None,
        "median_signed": median(pair.error for pair in pairs) if pairs else None,
    }


def _mean_step_s(run: RunRecord) -> float | None:
    return run.busy_s / run.num_steps if run.num_steps else None


def run_validation(bench: TimelyBench, profile: EngineProfile, lab: Lab) -> dict[str, Any]:
    """Returns the JSON document of a validation: the first trace under every policy, live and with ``profile``.

    Both replay the trace as the model of ``bench.planner`` plans it: same plans, tokens, prompts and durations. How
    many tokens a step computed and brought is taken from the live run: drafts depend on what was planned before.
    """
    found = lab.surveys(bench)[0]
    return {
        "workload": bench.workload,
        "load": bench.load,
        "duration_s": found.trace.duration_s,
        "model": bench.planner.engine.model,
        "device": found.device,
        "profile": profile.name,
        "profile_model": profile.model,
        "commit": commit(),
        "num_requests": len(found.trace.requests),
        "num_unplanned": dict(found.num_unplanned),
        "policies": {policy: _compare(bench, policy, profile, found, lab) for policy in bench.policies},
    }


def _compare(bench: TimelyBench, policy: str, profile: EngineProfile, found: Survey, lab: Lab) -> dict[str, Any]:
    run = lab.live_run(bench, policy)
    rows = (row.in_steps(run.request_steps.get(row.request_id, ())) for row in found.trace.requests)
    trace = replace(found.trace, requests=tuple(rows))
    scheduler = replace(bench.scheduler, policy=policy)
    config = SimulationConfig(profile=profile, scheduler=scheduler, waits_for_plan_s=bench.planner.waits_for_plan_s)
    simulated = simulate(trace, config, lab.scripts)
    alone = _alone(found, simulated, profile.host.transport_s.value)
    slowness = 1.0 + (alone["median_signed"] or 0.0)
    return comparison(pairs_of(run.record, simulated), run.record, simulated, slowness) | {"alone": alone}


def _alone(found: Survey, simulated: RunRecord, transport_s: float) -> dict[str, float | None]:
    """Returns how far the simulation is off where nothing else is going on; the survey crosses no process."""
    errors = [
        (record.bound_s - 2 * transport_s) / found.bounds_s[record.request_id] - 1.0 for record in simulated.requests
    ]
    if not errors:
        return {"median": None, "median_signed": None}
    return {"median": median(abs(error) for error in errors), "median_signed": median(errors)}


def summary_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yields one line per policy for people."""
    for policy, compared in document["policies"].items():
        error, busy = compared["relative_error"], compared["busy_share"]
        if not compared["n"]:
            yield f"{policy:13s} no request was served in both runs"
            continue
        yield f"{policy:13s} {compared['n']} requests, simulated response times off by {_said(error)}"
        corrected = _said(compared["corrected"])
        yield f"{'':13s} corrected for how quick the machine was then: {corrected}; engine busy {busy:.0%}"


def _said(error: dict[str, float]) -> str:
    return f"{error['median']:.1%} (median), {error['p90']:.1%} (p90), {error['median_signed']:+.1%} (signed)"


def draw_validation(document: dict[str, Any], path: Path) -> None:
    """Draws simulated against live response times, one dot per request; a perfect simulation lies on the diagonal."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.0, 5.0), dpi=110, layout="constrained")
    longest_s = 0.0
    for policy, compared in document["policies"].items():
        live_s, simulated_s = ([pair[i] for pair in compared["pairs_s"]] for i in (1, 2))
        longest_s = max([longest_s, *live_s, *simulated_s])
        axes.plot(live_s, simulated_s, ".", alpha=0.5, label=policy)
    axes.plot([0.0, longest_s], [0.0, longest_s], color="grey", linewidth=0.8)
    axes.set(xlabel="response time live [s]", ylabel="response time simulated [s]", aspect="equal")
    axes.set_title(f"{document['workload']} {document['load']:g}x, {document['model']}, {document['profile']}", size=9)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
