# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench pages``: the pages of earlier results."""

from pathlib import Path
from typing import Annotated

import typer
from jinja2 import UndefinedError

from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, read_json
from llm_planner_lab.reports import DIRECTORY, REPORTS, write_report

MAX_RESULT_BYTES = 100_000_000


def pages(
    directory: Annotated[
        Path, typer.Option(help="Directory of the result files and the pages.", exists=True, file_okay=False)
    ] = DIRECTORY,
) -> None:
    """Write the pages of docs/benchmarks again from the result files next to them.

    After a change of a template in lab/llm_planner_lab/pages; figures stay as they are.
    """
    files = {name: directory / f"{name}.json" for name in REPORTS}
    measured = {name: file for name, file in files.items() if file.is_file()}
    if not measured:
        raise PlannerError(
            ErrorCode.INVALID_FILE, f"{directory} holds no result file, such as {next(iter(REPORTS))}.json"
        )
    for name, file in measured.items():
        try:
            written = write_report(name, read_json(file, MAX_RESULT_BYTES), None, file.with_suffix(".md"))
        except DocumentError as error:
            raise PlannerError(ErrorCode.INVALID_FILE, f"{file} {error}") from error
        except (AttributeError, LookupError, TypeError, UndefinedError) as error:
            raise PlannerError(ErrorCode.INVALID_FILE, f"{file} is not what its page shows: {error!r}") from error
        for path in written:
            console.print(f"wrote {path}")
