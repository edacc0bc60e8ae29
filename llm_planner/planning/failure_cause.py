# SPDX-License-Identifier: Apache-2.0
"""Why a call failed, in a closed vocabulary: a model reads these words and none of the robot's own.

The reason in a report is free text, and its author would write into the prompt. What our drivers say is known
word for word; all else, whatever it says, means that it did not work. People read the robot's own words, in outcomes,
logs and the dashboard.
"""

import re
from collections.abc import Collection
from enum import Enum

_POINT = r"\([-\d., ]+\) m"
_NAMES = r"[\w, ]+"


class FailureCause(Enum):
    """What a model reads of a failure; ``{name}`` is an object of the call that failed."""

    NOT_VISIBLE = "{name} is not visible"
    AMBIGUOUS = "{name} is ambiguous"
    COVERED = "{name} is covered"
    SLIPPED = "{name} slipped away"
    NOTHING_HELD = "nothing is held, so {name} cannot be placed"
    HAND_FULL = "the hand is full"
    NO_ROOM = "there is no room"
    IN_THE_WAY = "something is in the way"
    UNREACHABLE = "is unreachable"
    OUTSIDE = "would leave the geofence"
    NOT_FLYING = "is not flying; take off first"
    UNKNOWN = "it did not work"


_LASTING = frozenset(
    {
        FailureCause.AMBIGUOUS,
        FailureCause.COVERED,
        FailureCause.NOTHING_HELD,
        FailureCause.HAND_FULL,
        FailureCause.UNREACHABLE,
        FailureCause.OUTSIDE,
        FailureCause.NOT_FLYING,
    }
)
"""What holds until the robot does something else; a way is cleared by others, and things come into sight."""
_CAUSES = {
    cause: re.compile("|".join(sentences), re.IGNORECASE)
    for cause, sentences in (
        (FailureCause.NOT_VISIBLE, (r"(\w+) is not visible",)),
        (FailureCause.AMBIGUOUS, (rf"(\w+) is ambiguous: {_NAMES}",)),
        (FailureCause.COVERED, (rf"(\w+) is covered by {_NAMES}",)),
        (FailureCause.SLIPPED, (r"(\w+) slipped away", r"grasped \w+ instead of (\w+)")),
        (FailureCause.NOTHING_HELD, (r"nothing is held, so (\w+) cannot be placed",)),
        (FailureCause.HAND_FULL, (r"the hand is full: it holds \w+",)),
        (FailureCause.NO_ROOM, (r"there is no room (?:in|beside) \w+",)),
        (
            FailureCause.IN_THE_WAY,
            (
                r"(?:did not arrive; )?something is in the (?:arm's )?way",
                "collision ahead",
                rf"has (?:collided with|touched) {_NAMES}",
            ),
        ),
        (
            FailureCause.UNREACHABLE,
            (
                "is unreachable",
                rf"[\w ]+ at {_POINT} is unreachable",
                rf"{_POINT} is unreachable from above, inside the workspace",
                rf"no way to {_POINT} inside the workspace",
            ),
        ),
        (FailureCause.OUTSIDE, (rf"would leave the geofence at {_POINT}",)),
        (FailureCause.NOT_FLYING, (r"is not flying; take off first",)),
    )
}


def plain_reason(reason: str, skills: Collection[str], names: Collection[str]) -> str:
    """Returns why a statement failed, in words of this module and of the statement only.

    Args:
        reason: By the robot's word, with the skill that failed in front (``g: cat is not visible``) or without.
        skills: What the statement calls.
        names: Objects that it names.
    """
    skill, cause, match = _found(reason, skills)
    name = next((group for group in match.groups() if group), "") if match else ""
    phrase = cause.value.format(name=name if name in names else "it")
    if len(skills) == 1:
        skill = next(iter(skills))
    elif cause is FailureCause.UNKNOWN:
        skill = ""
    return f"{skill}: {phrase}" if skill else phrase


def is_lasting(reason: str) -> bool:
    """Returns whether the same call would fail again at once: the reason holds until the robot does something else.

    Args:
        reason: By the robot's word, with the skill that failed in front or without.
    """
    skill = reason.strip().partition(": ")[0]
    return _found(reason, {skill} if skill.isidentifier() else ())[1] in _LASTING


def _found(reason: str, skills: Collection[str]) -> tuple[str, FailureCause, re.Match[str] | None]:
    """Returns the skill that a reason begins with, if it does, the cause, and where the reason says it."""
    head, colon, rest = reason.strip().partition(": ")
    skill, said = (head, rest) if colon and head in skills else ("", reason.strip())
    found = ((cause, match) for cause, pattern in _CAUSES.items() if (match := pattern.fullmatch(said)))
    cause, match = next(found, (FailureCause.UNKNOWN, None))
    return skill, cause, match
