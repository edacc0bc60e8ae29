# SPDX-License-Identifier: Apache-2.0
"""Commands of the laboratory, imported when they run."""

from typing import ClassVar

from llm_planner.cli import lazy


class LazyCommand(lazy.LazyCommand):
    """As the product's, of modules below ``llm_planner_lab.cli``."""

    package: ClassVar[str] = "llm_planner_lab.cli"
