# SPDX-License-Identifier: Apache-2.0
"""Markdown from templates: the pages of benchmarks, and the cards of models."""

import textwrap
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def render(name: str, **context: object) -> str:
    """Returns the template ``pages/NAME.md.j2``, filled in.

    Raises:
        jinja2.UndefinedError: The template needs what is not there.
    """
    return _ENVIRONMENT.get_template(f"{name}.md.j2").render(context)


def _format(value: float | None, spec: str) -> str:
    return "-" if value is None else format(0 + value, spec)  # the sum, as only that names an undefined value


def _wrap(text: str, width: int = 118) -> str:
    """Returns paragraphs in lines of one width; tables, headings, lists and pictures stay as they are."""
    return (
        "\n\n".join(
            part if part.startswith(("|", "#", "!", "-")) else textwrap.fill(part, width, break_on_hyphens=False)
            for part in text.strip().split("\n\n")
        )
        + "\n"
    )


_ENVIRONMENT = Environment(  # noqa: S701 (Markdown, not HTML)
    loader=FileSystemLoader(Path(__file__).parent / "pages"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters.update(fmt=_format, wrap=_wrap)
