# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once, without a model: stop, hold still, let go.

Only a sentence that is such an order as a whole counts. What goes on ("stop at the door", "don't move the cup") is a
task.
"""

import re
import unicodedata

from llm_planner.robots.effect import Gripper
from llm_planner.robots.model import RobotModel

_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "please now right there here ok okay hey oi robot drone arm buddy lad mate guys everyone all immediately "
        "at once instantly this instant just i said say for god s sake goodness already quick quickly fast and "
        "then the a will you can could would me us stupid thing damn hell heaven exactly where are it that "
        "everything so no oh ah uh um yes hang literally of asap today what ever doing re your easy big love "
        "sweetheart darling honey thank thanks omg dude bro enough keep danger current mission task motion motions "
        "movement movements",
    )
)
_STILL = (
    r"(?:right )?"
    r"(?:put|(?:very |perfectly )?still|there|here|where you are|in (?:place|position)|your position|quiet|motionless)"
)
_STOP = (
    r"(?:emergency )?stop(?: (?:right )?(?:there|here|where you are))?",
    r"(?:stop|quit|cease) (?:moving|it|that|everything|flying)",
    r"halt|freeze|abort|cease|whoa|woah|cancel|enough|e stop|estop|knock it off|cut it out|that s (?:far )?enough",
    r"hold(?: (?:on|it|still|fire|position|your position|that|everything))?|stand (?:still|by)",
    rf"(?:stay|remain)(?: {_STILL})?|keep {_STILL}",
    (
        r"(?:do not|don t|dont|never|no) (?:you )?(?:dare )?(?:move|moving|budge|go|stir|fly)"
        r"(?: (?:an inch|a muscle|at all))?"
    ),
    r"(?:do not|don t|dont) touch (?:that|it|anything)|leave (?:it|that)(?: alone)?|(?:nobody|no one|nothing) moves?",
    r"not (?:a|an|one|another) (?:muscle|millimetre|millimeter|step|centimetre|inch|move)(?: further)?",
)
_RELEASE = (
    r"let go(?: of (?:me|him|her|it|(?:my|his|her) \w+))?|let (?:me|him|her|it|them|that|this|(?:my|his|her) \w+) go",
    r"release(?: (?:it|me|him|her|that))?|drop it",
)
_ORDER = re.compile(rf"\b(?:(?P<stop>{'|'.join(_STOP)})|(?P<release>{'|'.join(_RELEASE)}))\b")
_MAX_CHARACTERS = 4096
_TO_BE_SAID = re.compile(
    r"\W*(?:(?:please|now|ok|okay|hey|robot|drone|just|then|and|can|could|will|would|you)\W+)*"
    r"say(?:\s+|\s*:\s*|[\s,:]*[\"'\u2018\u201c\u201e\u00ab]\s*)\w"
)
"""What begins like this names words to say: "say nobody move" is to be said, "say, stop" is an order."""


def is_stop(instruction: str) -> bool:
    """Returns whether an instruction (untrusted) orders a robot to stop, and at most to let go besides."""
    return "stop" in _orders(instruction)


def immediate_plan(model: RobotModel, instruction: str) -> str:
    """Returns the plan of an order that acts at once; empty if the instruction is no such order.

    Args:
        model: Of the robot: its stop skill, and what opens its gripper.
        instruction: Untrusted.
    """
    orders = _orders(instruction)
    if "release" in orders:
        opens = (
            name for name, skill in model.skills.items() if isinstance(skill.effect, Gripper) and skill.effect.is_open
        )
        if opening := next(opens, ""):
            return f"{opening}();"
    return f"{model.stop_skill}();" if "stop" in orders else ""


def _orders(instruction: str) -> set[str]:
    """Returns which orders an instruction consists of, ``stop`` and ``release``; none if it says anything else."""
    if len(instruction) > _MAX_CHARACTERS or any(map(str.isdigit, instruction)):
        return set()
    if _TO_BE_SAID.match(instruction.lower()):
        return set()
    text = " ".join(re.findall(r"[a-z]+", unicodedata.normalize("NFKD", instruction).lower().replace("'", " ")))
    if any(word not in _FILLERS for word in _ORDER.sub(" ", text).split()):
        return set()
    return {kind for match in _ORDER.finditer(text) if (kind := match.lastgroup)}
