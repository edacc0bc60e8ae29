# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity curve`` and ``check``: how many robots an engine profile serves, and whether that is so."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import ConfigOption, JsonOption, ModelOption, ThreadsOption
from llm_planner.cli.output import console, error_console, print_json

ProfileArgument = Annotated[
    str, typer.Argument(help="Engine profile: a name, a file, or estimate:HARDWARE/DEVICES/FRAMEWORK/MODEL.")
]


def curve(
    profile: ProfileArgument,
    out: Annotated[Path, typer.Argument(help="The profile to write: as the given one, with curves.")],
    policy: Annotated[str, typer.Option(help="Scheduling policy.")] = "tardiness",
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Batch limit, scheduler.max_num_seqs.")] = 16,
    own_plans: Annotated[
        bool,
        typer.Option(
            "--own-plans",
            help="Count the plans that the profile's model itself writes; it must run on this machine. "
            "Fleets with a robot model of which it plans nothing are left out.",
        ),
    ] = False,
) -> None:
    """Simulate how many robots an engine serves in time, and write it into a profile; some minutes per fleet.

    Shares are over three traces, of seeds 0 to 2. ~/get_capacity answers from these curves: drones alone, arms alone,
    and one of each.
    """
    from llm_planner.core.config import SchedulerConfig
    from llm_planner.prediction.profile import find_profile
    from llm_planner.robots.library import RobotLibrary
    from llm_planner.scheduling.policies import make_policy
    from llm_planner_lab.bench.capacity.own_plans import OwnPlans
    from llm_planner_lab.cli.live import planner_config
    from llm_planner_lab.simulation.capacity.saturation import (
        FLEETS,
        NUM_TRACES,
        profile_text,
        with_curves,
        with_section,
    )

    def note(text: str) -> None:
        error_console.print(text, markup=False)

    make_policy(policy)  # a wrong name is found before minutes are spent
    limits = SchedulerConfig(policy=policy, max_num_seqs=batch)
    seeds = range(NUM_TRACES)
    if own_plans:
        model = find_profile(profile).model
        plans = OwnPlans(planner_config(model, None, 1), RobotLibrary(), note)
        units = [unit for unit in FLEETS if plans.can_plan(unit)]
        data = with_curves(profile, limits, seeds, note, units=units, asked=plans.trace, planned_by=model)
    else:
        data = with_curves(profile, limits, seeds, note)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(with_section(profile_text(profile), data), encoding="utf-8")
    console.print(f"wrote {out}: {len(data.expected)} fleets")


def check(
    profile: ProfileArgument,
    fleet: Annotated[str, typer.Option(help="Fleet that is counted, as in tello:1; all if empty.")] = "",
    live: Annotated[
        float | None,
        typer.Option(min=1.0, help="Seconds of each claim on the planner itself, instead of a simulation."),
    ] = None,
    model: ModelOption = None,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the first trace; by default the one after those of the curves.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try an engine at every saturation that its curves claim: drones, arms, and two mixes; three limits.

    In virtual time, over three traces from --seed on, or with `--live` on the planner itself, over one trace; the
    profile must be one of this machine, and nothing else may run on it. The traces of the curves (seeds 0 to 2) are
    refused: a claim that was read off them is kept on them. What is planned: as for the curves, their tasks' plans or
    those of the model; live always those of the model.
    """
    from llm_planner.core.errors import ErrorCode, PlannerError
    from llm_planner.prediction.profile import find_profile
    from llm_planner_lab.bench.capacity.live_fleet import served_live
    from llm_planner_lab.bench.capacity.own_plans import OwnPlans
    from llm_planner_lab.cli.live import live_lab, planner_config
    from llm_planner_lab.simulation.capacity.fleet import parse_fleet
    from llm_planner_lab.simulation.capacity.saturation import BETWEEN, FLEETS, NUM_TRACES, check_claims, simulated

    curves = find_profile(profile).capacity
    first_seed = NUM_TRACES if seed is None else seed
    if first_seed < NUM_TRACES:
        message = (
            f"the curves were made of the traces of seeds 0 to {NUM_TRACES - 1}, on which their claims are kept; "
            f"give --seed {NUM_TRACES} or more"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    planned_by = curves.planned_by if curves else ""
    with live_lab() as lab:
        units = (parse_fleet(fleet, lab.robots),) if fleet else (*FLEETS, BETWEEN)
        planner = planner_config(model or planned_by or None, config, threads)
        plans = OwnPlans(planner, lab.robots, lambda text: error_console.print(text, markup=False), lab.on_progress)
        if live is None:
            seeds = range(first_seed, first_seed + NUM_TRACES)
            requests = simulated(profile, seeds, plans.trace if planned_by else None)
        else:
            requests = served_live(plans, planner, first_seed, live, lab.on_progress)
        found = list(check_claims(profile, requests, units))
    if as_json:
        print_json(found)
        return
    table = Table("fleet", "limit", "claimed", "simulated within" if live is None else "live within")
    for claim in found:
        table.add_row(
            claim.fleet, f"{claim.slo_s:g} s", str(claim.number), "" if claim.share is None else f"{claim.share:.1%}"
        )
    console.print(table)
