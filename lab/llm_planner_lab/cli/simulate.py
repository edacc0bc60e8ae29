# SPDX-License-Identifier: Apache-2.0
"""``llm-planner simulate``: what can be found out without an engine."""

import typer

from llm_planner_lab.cli.simulate_admission import admission

app = typer.Typer(
    name="simulate", help="Simulate schedulers on lengths alone, without an engine.", no_args_is_help=True
)
app.command("admission")(admission)


@app.callback()
def _group() -> None:
    """A group, also as long as it has one command."""
