# SPDX-License-Identifier: Apache-2.0
"""Directions of an instruction against those of its plan: no motion towards a threat, and none the other way round.

"A forklift from the left" must not become a flight to the left, nor "turn right" a turn to the left. Only what can be
read off the words is judged: a plan passes if nothing is said of its directions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from llm_planner.core.skill import SkillCall
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.effect import Approach, GoTo, Translate, Turn
from llm_planner.robots.model import RobotModel


class Side(Enum):
    """A direction from where the robot stands."""

    LEFT = "left"
    RIGHT = "right"
    FRONT = "forward"
    BACK = "back"
    UP = "up"
    DOWN = "down"


_OPPOSITE = {
    Side.LEFT: Side.RIGHT,
    Side.RIGHT: Side.LEFT,
    Side.FRONT: Side.BACK,
    Side.BACK: Side.FRONT,
    Side.UP: Side.DOWN,
    Side.DOWN: Side.UP,
}
_AXES = ((Side.FRONT, Side.BACK), (Side.LEFT, Side.RIGHT), (Side.UP, Side.DOWN))

_NOT_A_SIDE = re.compile(
    r"\bright (?=(?:now|away|there|here|behind|above|below|under|over|in|at|on|beside|next|up|into|onto|where|then)\b)"
    r"|\b(?:all right|alright|you re right|that s right|(?:is|are|s|been|be|just|only|got|have|has|what) left\b(?! of)"
    r"|left (?:over|behind|in|on|my|his|her|their|our|it|the)\b|straight up(?= [,;:.!?]| *$)|right angles?\b"
    r"|give (?:me|us) back\b|at the back\b|back (?:door|gate|yard|garden|wall|room|seat|row)s?\b)"
)
_UNIT = r"(?:cm|centimet(?:re|er)s?|met(?:re|er)s?|m|feet|foot|ft|yards?|yd)"
_WAYS = {  # words that order a motion or a turn
    Side.LEFT: r"left|port|leftwards?|lefthand|anticlockwise|anti clockwise|counter ?clockwise|(?:nine|9) o clock"
    r"|against (?:the )?clock(?:wise)?",
    Side.RIGHT: r"right|starboard|rightwards?|righthand|(?<!against )(?<!against the )clockwise|(?:three|3) o clock",
    Side.FRONT: rf"fore ?wards?|forwards?|fwd|(?:go|fly|move|straight|further|{_UNIT}) (?:ahead(?! of)|front)"
    rf"|ahead (?:\w+ )?\w+ {_UNIT}|(?:closer|nearer)(?! than)|advance",
    Side.BACK: r"(?<!come )(?<!read )(?<!and )back(?! up| down| to| in| on| where| the way)|backwards?|reverse|astern"
    r"|retreat|withdraw|recoil",
    Side.UP: r"up(?! there)|upwards?|higher|rise|raise|lift|climb|ascend|elevate|hoist|levitate|soar|mount"
    r"|gain (?:\w+ ){0,4}(?:height|altitude)",
    Side.DOWN: r"down|doon|downwards?|lower|descend|drop|duck|dip(?:s|ped)?|sink",
}
_PLACES = {  # words for where something is, or comes from
    Side.LEFT: r"left|port|lefthand|(?:nine|9) o clock|your (?:nine|9)",
    Side.RIGHT: r"right|starboard|righthand|(?:three|3) o clock|your (?:three|3)",
    Side.FRONT: r"front|ahead|before you|(?:twelve|12) o clock",
    Side.BACK: r"behind|rear|(?:your|ur|the|in) back|back(?:wards|ing) into|(?:six|6) o clock|your (?:six|6)|tail",
    Side.UP: r"above|overhead|over (?:you|us|there)|ceiling|roof|top|up there|sky|(?:on|onto|over) (?:your|our) heads?",
    Side.DOWN: r"below|beneath|underneath|under|floor|ground|bottom|underside",
}
_HALF_OR_FULL = (180, 360)  # degrees
_MOVE = (
    r"(?:go|move|fly|get|slide|step|shift|dodge|duck|dive|jump|come|head|veer|swerve|bank|roll|back|pull|drop|climb|rise|"
    r"run|hop|scoot|turn|drift|edge|ease|nip|shuffle|budge|swing|steer|strafe|tilt|escape)"
)
_AMOUNT = rf"(?:\w+ (?:\w+ )?(?:{_UNIT}|steps?) )?"
_ORDERED = re.compile(
    rf"\b{_MOVE} (?:it |away |off |over |out |quick(?:ly)? |now |straight )*{_AMOUNT}"
    r"(?:to )?(?:the |your |a )?(?:\w+ )?"
    r"(?:left|right|ahead)\b|\b(?:left|right) (?:now|you go)\b"
)
_FROM = r"\bfrom (?:the |your |its |my |our |over )*(?:\w+ )?(?:{words})\b"
_REVERSED = re.compile(
    r"\b(?:opposite|other|away|avoid|mirror|undo|reverse|return|not|don t|dont|no|never|instead|wrong|dodge|"
    r"again|wait|actually|sorry|scratch|rather|meant?|same|around|out of|off|from|too far)\b"
)


def _patterns(words: dict[Side, str], form: str = r"\b(?:{words})\b") -> dict[Side, re.Pattern[str]]:
    return {side: re.compile(form.replace("{words}", each)) for side, each in words.items()}


_WARNING = re.compile(_FROM.replace("{words}", "|".join(_PLACES.values())))
_NAMED, _MENTIONED, _WARNED_OF = _patterns(_WAYS), _patterns(_PLACES), _patterns(_PLACES, _FROM)


@dataclass(slots=True)
class DirectionCheck:
    """Follows one plan call by call.

    Args:
        model: Of the robot: which way a skill moves it.
        instruction: As it came; untrusted.
        is_urgent: Whether it reports an emergency: every side that it names, and orders no motion to, is a threat's;
            if it names none, the threat is taken to be in front.
        is_replan: Whether an earlier plan has failed: another way may be needed, but none towards a threat.
    """

    model: RobotModel
    instruction: str
    is_urgent: bool = False
    is_replan: bool = False
    problem: str = field(default="", init=False)
    _threats: frozenset[Side] = field(init=False)
    _is_side_named: bool = field(default=False, init=False)
    _named: frozenset[Side] = field(init=False)
    _is_reversed: bool = field(init=False)
    _gone: set[tuple[bool, Side]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        text = " ".join(re.findall(r"[a-z0-9]+|[,;:.!?](?=\s)", self.instruction[:4096].lower()))
        text = _NOT_A_SIDE.sub(" ", text)
        warned = _sides(_WARNED_OF, _ORDERED.sub(" ", text))
        self._named = _sides(_NAMED, _WARNING.sub(" ", text))
        self._is_reversed = _REVERSED.search(text) is not None
        if self.is_urgent:
            warned = _sides(_MENTIONED, _ORDERED.sub(" ", text))
            self._threats = warned or frozenset({Side.FRONT}) - self._named
            self._is_side_named = bool(warned) and self._named <= warned
            self._named -= warned
        else:
            self._threats = warned - self._named

    def ways_out(self) -> frozenset[str]:
        """Returns the skills that move the robot to none of the sides that are named; none if none is named."""
        if not self._is_side_named:
            return frozenset()
        sides = {name: self._side(SkillCall(name)) for name in self.model.skills}
        return frozenset(name for name, (moves, side) in sides.items() if moves and side not in self._threats)

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        for call in calls:
            moves, side = self._side(call)
            if side is None:
                continue
            opposite = _OPPOSITE[side]
            is_way_back = (moves, opposite) in self._gone
            self._gone.add((moves, side))
            if moves and side in self._threats and opposite not in self._threats and not is_way_back:
                self.problem = f"{_said(call)} goes to the side that the instruction warns of"
                return Verdict.CONTRADICTED
            if not is_way_back and self._is_other_way(side):
                self.problem = f"{_said(call)} goes another way than the instruction says"
                return Verdict.CONTRADICTED
        return Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands."""
        return Verdict.EXPLAINED

    def restarted(self) -> "DirectionCheck":
        """Returns the check of a replan: towards a threat is as wrong as before."""
        return replace(self, is_replan=True)

    def _is_other_way(self, side: Side) -> bool:
        """Whether the instruction orders the opposite direction only, and has no word that turns it round."""
        if self.is_replan or self._is_reversed:
            return False
        return _OPPOSITE[side] in self._named and side not in self._named

    def _side(self, call: SkillCall) -> tuple[bool, Side | None]:
        """Returns whether a call moves the robot from where it is, and which way it goes or turns."""
        skill = self.model.skill(call.name)
        effect = skill.effect if skill else None
        if isinstance(effect, Turn):
            if call.arguments and call.arguments[0] in _HALF_OR_FULL:
                return False, None  # either way round leads to the same
            return False, Side.LEFT if effect.direction > 0 else Side.RIGHT
        if not isinstance(effect, Translate):
            return False, None
        axis = max(range(3), key=lambda index: abs(effect.axis[index]))
        return True, _AXES[axis][effect.axis[axis] < 0]


def ways_out(model: RobotModel, instruction: str) -> frozenset[str]:
    """Returns the skills that bring a robot away from what an emergency warns of, each as good as the others.

    None if the emergency names no side, or orders a motion: then it matters which of them a plan takes.
    """
    return DirectionCheck(model, instruction, is_urgent=True).ways_out()


def ways_to_things(model: RobotModel) -> frozenset[str]:
    """Returns the skills that bring a robot to a thing, each as good as the others: they end at the same place."""
    return frozenset(name for name, skill in model.skills.items() if isinstance(skill.effect, Approach | GoTo))


def _sides(words: dict[Side, re.Pattern[str]], text: str) -> frozenset[Side]:
    return frozenset(side for side, pattern in words.items() if pattern.search(text))


def _said(call: SkillCall) -> str:
    return f"{call.name}({','.join(f'{argument:g}' for argument in call.arguments if isinstance(argument, float))})"
