# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench pages``: the pages of earlier results."""

import json
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console
from llm_planner_lab.reports import DIRECTORY, REPORTS, write_report


def pages(
    directory: Annotated[Path, typer.Option(help="Directory of the result files and the pages.")] = DIRECTORY,
) -> None:
    """Write the pages of docs/benchmarks again from the result files next to them.

    After a change of a template in lab/llm_planner_lab/pages; figures stay as they are.
    """
    for name in REPORTS:
        if not (directory / f"{name}.json").is_file():  # not measured yet
            continue
        document = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        for path in write_report(name, document, None, directory / f"{name}.md"):
            console.print(f"wrote {path}")
