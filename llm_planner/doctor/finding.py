# SPDX-License-Identifier: Apache-2.0
"""What a check found, and how checks run side by side without one of them holding up the rest."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from llm_planner.core.interfaces import Clock

LATE = "run it again with a longer --timeout, or look at what it waits for"
"""What to do about a check that did not end in time: nothing is known to be broken."""


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # the planner works, something does not, or not as well
    ERROR = "error"  # the planner does not work


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at.
        text: How it is.
        fix: What to do about it; empty if nothing is wrong.
    """

    check: str
    level: Level = Level.OK
    text: str
    fix: str = ""


Check = Callable[[], Iterable[Finding]]


def examine(checks: Mapping[str, Check], timeout_s: float, clock: Clock) -> list[Finding]:
    """Returns what the checks found, in their order. They run side by side; one that takes too long is an error.

    Args:
        checks: By name; each returns findings, and may fail.
        timeout_s: How long all of them together may take.
        clock: Real time.
    """
    found: dict[str, list[Finding]] = {}
    threads = {}
    for name, check in checks.items():
        threads[name] = threading.Thread(target=_run, args=(name, check, found), name=name, daemon=True)
        threads[name].start()
    until_s = clock.now_s() + timeout_s
    for thread in threads.values():
        thread.join(max(0.0, until_s - clock.now_s()))
    return [
        finding
        for name in checks
        for finding in found.get(name)
        or [Finding(check=name, level=Level.ERROR, text=f"no answer within {timeout_s:g} s", fix=LATE)]
    ]


def _run(name: str, check: Check, found: dict[str, list[Finding]]) -> None:
    try:
        found[name] = list(check())
    except Exception as error:  # noqa: BLE001 -- whatever a broken installation throws is a finding
        text = f"the check itself failed: {error!r}"
        found[name] = [Finding(check=name, level=Level.ERROR, text=text, fix="report this as a bug")]
