# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity curve`` and ``check``: how many robots an engine profile serves, and whether that is so."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, SeedOption
from llm_planner.cli.output import console, error_console, print_json

ProfileArgument = Annotated[
    str, typer.Argument(help="Engine profile: a name, a file, or estimate:HARDWARE/DEVICES/FRAMEWORK/MODEL.")
]


def curve(
    profile: ProfileArgument,
    out: Annotated[Path, typer.Argument(help="The profile to write: as the given one, with curves.")],
    policy: Annotated[str, typer.Option(help="Scheduling policy.")] = "tardiness",
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Batch limit, scheduler.max_num_seqs.")] = 16,
    seed: SeedOption = 0,
) -> None:
    """Simulate how many robots an engine serves in time, and write it into a profile; some minutes per fleet.

    ~/get_capacity answers from these curves: drones alone, arms alone, and one of each.
    """
    from llm_planner.core.config import SchedulerConfig
    from llm_planner.scheduling.policies import make_policy
    from llm_planner_lab.simulation.capacity.saturation import profile_text, with_curves, with_section

    make_policy(policy)  # a wrong name is found before minutes are spent
    limits = SchedulerConfig(policy=policy, max_num_seqs=batch)
    data = with_curves(profile, limits, seed, lambda text: error_console.print(text, markup=False))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(with_section(profile_text(profile), data), encoding="utf-8")
    console.print(f"wrote {out}: {len(data.expected)} fleets")


def check(profile: ProfileArgument, seed: SeedOption = 0, as_json: JsonOption = False) -> None:
    """Simulate an engine at every saturation that its curves claim: drones, arms, and two mixes; three limits."""
    from llm_planner_lab.simulation.capacity.saturation import check_claims

    found = check_claims(profile, seed)
    if as_json:
        print_json(found)
        return
    table = Table("fleet", "limit", "claimed", "simulated within")
    for claim in found:
        table.add_row(
            claim.fleet, f"{claim.slo_s:g} s", str(claim.number), "" if claim.share is None else f"{claim.share:.1%}"
        )
    console.print(table)
