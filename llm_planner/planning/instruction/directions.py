# SPDX-License-Identifier: Apache-2.0
"""Directions of an instruction against those of its plan: no motion towards a threat, and none the other way round.

"A forklift from the left" must not become a flight to the left, nor "turn right" a turn to the left. Only what can be
read off the words is judged: a plan passes if nothing is said of its directions.
"""

import cmath
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.quantities import NUMBER_WORDS
from llm_planner.planning.instruction.sides import AXES, OPPOSITE, Side, side_of_effect
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.limits import MAX_CALLS
from llm_planner.robots.effect import Approach, GoTo, Land, Orient, Scan, TakeOff, Translate, Turn
from llm_planner.robots.model import RobotModel


def _not_behind(words: str) -> str:
    """Returns a pattern that matches where none of these words, which commas separate, stands before."""
    return "".join(rf"(?<!\b{each} )" for each in words.split(","))


_IS_A_SIDE = _not_behind("the,your,turn,swing,spin,rotate,veer")  # of what stands behind these
_IS_A_WAY = _IS_A_SIDE + _not_behind(
    "from,on,go,move,fly,step,steps,slide,look,cm,m,metre,metres,meter,meters,foot,feet,degrees"
)
_NOT_A_SIDE = re.compile(
    r"^(?:ok |so |well )?right ,(?=.*\b(?:left|behind|back|front|ahead|above|overhead|below|under|tail|rear)\b)"
    r"|^go ahead and\b"
    rf"|{_IS_A_SIDE}\bright (?=(?:now|there|here|behind|above|below|under|over|in|on|beside|next|up|into|onto|where)\b)"
    rf"|{_IS_A_WAY}\bright (?=(?:against|around|outside|inside|between|past|across)\b)"
    rf"|{_IS_A_WAY}\bright by (?=(?:the|your|you|my|me|his|him|her|it|us|them)\b)"
    rf"|\bright (?=away\b)|{_IS_A_WAY}\bright (?=(?:at|then)\b)"
    r"|\b(?:all right|alright|you re right|that s right"
    r"|(?:is|are|s|been|be|got|what|who|(?:have|has)(?: just| only)?) left\b(?! of)"
    rf"|{_IS_A_WAY}left (?:over|behind|in|on|my|his|her|their|our|it|the)\b"
    r"|straight up(?= [,;:.!?]| *$)|right angles?\b"
    r"|give (?:me|us) back\b|at the back\b(?! of you\b)|back (?:door|gate|yard|garden|wall|room|seat|row)s?\b)"
)
_UNIT = r"(?:cm|centimet(?:re|er)s?|met(?:re|er)s?|m|feet|foot|ft|yards?|yd)"
_WAYS = {  # words that order a motion or a turn
    Side.LEFT: r"left|port|leftwards?|lefthand|anticlockwise|anti clockwise|counter ?clockwise|(?:nine|9) o clock"
    r"|against (?:the )?clock(?:wise)?",
    Side.RIGHT: r"right|starboard|rightwards?|righthand|(?:three|3) o clock"
    r"|(?<!against )(?<!against the )(?<!counter )(?<!anti )clockwise",
    Side.FRONT: rf"fore ?wards?|forwards?|fwd|(?:go|fly|move|straight|further|half|{_UNIT}) (?:ahead(?! of)|front)"
    rf"|ahead (?:\w+ )?\w+ {_UNIT}|(?<!is )(?<!it )(?<!are )(?:closer|nearer)(?! than| of)|advance"
    rf"|to the front(?! of)|forth|there(?= and (?:\w+ )?back\b)|(?:(?:go|going|fly|flying)(?= on (?!to\b))|{_UNIT}) on"
    rf"|(?:go|fly|move) (?:an? |another )?\w+ {_UNIT}(?! (?:further )?(?:to (?:the |your )?)?"
    r"(?:left|right|up|down|back|higher|lower|away|off|out|above|below|behind)\w*\b)"
    rf"|(?<!back )(?<!pull )out(?= (?:\w+ )?\w+ {_UNIT}\b.*\bback\b)",
    Side.BACK: r"(?<!come )(?<!read )(?<!and )back"
    r"(?!(?: up| down| to| in| on| where| the way|(?: over| off| along)? home)\b)"
    r"|backwards?|reverse|astern|retreat|withdraw|recoil|retire",
    Side.UP: r"(?<=go )up|up(?! there)|upwards?|higher|ris(?:e|ing)|raise|lift(?:ing)?|climb(?:ing)?|ascend(?:ing)?"
    r"|elevate|hoist|levitate|soar|mount"
    r"|(?:gain (?:\w+ ){0,4}|more )(?:height|altitude)",
    Side.DOWN: r"down|doon|downwards?|lower|deeper|descend(?:ing)?|drop|duck|dip(?:s|ped)?|sink"
    r"|(?:lose (?:\w+ ){0,4}|less )(?:height|altitude)",
}
_PLACES = {  # words for where something is, or comes from
    Side.LEFT: r"left|port|lefthand|(?:seven|eight|nine|ten|eleven|[789]|1[01]) o clock|your (?:nine|9)",
    Side.RIGHT: r"right|starboard|righthand|(?:one|two|three|four|five|[1-5]) o clock|your (?:three|3)",
    Side.FRONT: r"front|ahead|before you|(?:ten|eleven|twelve|one|two|1[0-2]|[12]) o clock",
    Side.BACK: r"behind|rear|(?:your|ur|the|in) back|^back ?side|back of (?:you|u)|back(?:wards|ing) into"
    r"|(?:four|five|six|seven|eight|[4-8]) o clock|your (?:six|6)|tail|(?:look|watch) back",
    Side.UP: r"above|overhead|over (?:you|us|there)|ceiling|roof|top|up there|sky|(?:on|onto|over) (?:your|our) heads?"
    r"|(?:mind|watch) (?:your|ur|the) heads?|(?:look|watch) up"
    r"|(?:fall(?:s|ing)?|drop(?:s|ping)?|com(?:es|ing) down) (?:down )?(?:up)?on(?:to)? (?:you|u)"
    r"|(?<=from )up|out from (?:under(?:neath)?|beneath|below)",
    Side.DOWN: r"(?<!out from )(?:below|beneath|underneath|under)|(?<=from )down|(?:look|watch) down"
    r"|floor|ground|bottom|underside",
}
_TOLERANCE_M = 0.01
_ROUNDED = 1.1  # two times a foot: 30 cm, 30 cm, and 61 cm back
_ROUNDS = re.compile(r"(?:^|(?<=[;{}]))(\d{1,3})\{")  # of a loop
_HALF_OR_FULL = (180, 360)  # degrees
_MOVE = (
    r"(?:go|move|fly|get|slide|step|shift|dodge|duck|dive|jump|come|head|veer|swerve|bank|roll|back|retreat|pull|drop|climb|rise|"
    r"run|hop|scoot|turn|drift|edge|ease|nip|shuffle|budge|swing|steer|strafe|tilt|escape|clear)"
)
_AMOUNT = rf"(?:\w+ (?:\w+ )?(?:{_UNIT}|steps?) )?"
_TO = (
    rf"(?:it |away |off |over |out |quick(?:ly)? |now |straight )*{_AMOUNT}"
    r"(?:to )?(?:the |your |a )?(?:(?!from |on |by |at |in )\w+ )?"
)
_OF_A_THING = r"(?:come|drop|jump|roll|run|slide|swing|tilt)"  # verbs that say what things do, too: "bikes come left"
_OTHERS = _not_behind("will,would,might,may,could,going to,about to,wants to")
_CLAUSE_BEGIN, _CLAUSE_END = r"(?:^|[,;:.!?] )", r"(?= *(?:[,;:.!?]|$))"
_ORDER_BEGIN = rf"(?:{_CLAUSE_BEGIN}|\b(?:and|then|now|please|quick|quickly|must|just) )"
_IS_LEFT = re.compile(rf"(?:is|are|s) left{_CLAUSE_END}")
_ORDER = rf"(?:{_OTHERS}\b(?!{_OF_A_THING}\b){_MOVE}|{_ORDER_BEGIN}{_OF_A_THING})"
_ASIDE = r"(?:aside|sideways|out of (?:(?:the|its|his|her|their|my|our) way|here|there))"
_SOME = rf"(?:(?:(?:an?|{'|'.join(sorted(NUMBER_WORDS))}|of|and|point|\d+) )+(?:{_UNIT}|steps?)|\d+(?:m|cm|ft))"
_TO_SIDE = r"(?:to (?:the |your )?)?(?:left|right)(?: hand)?(?: side)?\b"
_TO_FLOOR = r"(?:down )?(?:on|to|onto) (?:the )?(?:ground|floor)\b"
_KEEP = r"(?:keep|stay|bear|hard|sharp) (?:to (?:the |your )?)?"
_CALL = r"(?:no|hey|now|please|quick(?:ly)?|hurry|[,;:.!])"  # beside a side that is all that is said
_BEAM = r"(?:there s |there is )?(?:(?:an?|the) )?(?!left|right)\w+ (?:\w+ing )?(?:on|from) (?:the|your) "
_BEAM_END = r"(?: (?:hand )?side)?(?: [.!])*$"
"""What a side is shouted for: "LEFT! beam on the right"."""
_ORDERED = re.compile(
    rf"^(?:{_CALL} )*(left|right) (?:(?:[,;:.!]|\1) )*(?=go \1\b)"
    rf"|^ *(?:to the )?left (?:(?:[,!.]|left) )*(?={_BEAM}right{_BEAM_END})"
    rf"|^ *(?:to the )?right (?:(?:[,!.]|right) )*(?={_BEAM}left{_BEAM_END})"
    rf"|{_ORDER} {_TO}(?:left|right|ahead|front(?! of))\b|(?<!your )(?<!the )\b(?:left|right) (?:now|you go)\b"
    rf"|(?:(?:{_ORDER} {_ASIDE}|{_OTHERS}\bevade)(?: now| quick(?:ly)?)? (?:{_SOME} )?"
    rf"|{_CLAUSE_BEGIN}(?:quick(?:ly)?|hurry(?: up)?|go|move|dodge)(?: [,;:.!])? {_SOME} (?!to your )"
    rf"|{_ORDER_BEGIN}{_KEEP})"
    rf"{_TO_SIDE}(?:{_CLAUSE_END}|(?= (?:and|then|now|quick(?:ly)?|please|before|because)\b))"
    rf"|^(?:{_MOVE} {_ASIDE} , to (?:the |your )?|{_SOME} (?:to (?:the |your ))?)(?:left|right)$"
    r"|\b(?:(?:get|go|come|move|fly) down|land(?: it)?|(?:set|put|bring) it down) "
    r"(?:on|to|onto) (?:the )?(?:ground|floor)\b"
    rf"|(?:{_CLAUSE_BEGIN}|\b(?:now|please|quick|quickly|must) )(?:drop|descend|duck|dive|sink|get|go) {_TO_FLOOR}"
)
_MAY_BE_ORDERED = re.compile(  # or where the threat is: "get out of there, to your left"
    rf"{_ORDER} {_ASIDE}(?: ,)? (?:{_SOME} )?{_TO_SIDE}|{_ORDER} , (?:{_SOME} )?{_TO_SIDE}{_CLAUSE_END}"
    rf"|{_CLAUSE_BEGIN}{_SOME} {_TO_SIDE}{_CLAUSE_END}|\band (?:drop|descend) {_TO_FLOOR}"
    rf"|^(?:(?:{_CALL}|left|right) )*(?:to the )?(?:left|right)(?: {_CALL})*$"
)
_BEFORE_ORDERS = ("^", "[,;:.!?] ", "now ", "please ", "just ", "and ", "must ", "then ", "quickly ", "not ", "t ")
_TOLD = rf"(?:{'|'.join(f'(?<={before})' for before in _BEFORE_ORDERS)})"
_CLIMB = re.compile(
    rf"\b{_TOLD}(?:(?:go|get|fly|move|come) (?:back )?(?:up|higher)|up(?! ahead)"
    r"|climb|rise|ascend|take off|(?:get )?off the (?:ground|floor))\b"
)
_LAND = re.compile(rf"\b{_TOLD}(?:land|descend|(?:get|go|come) down)\b")
_URGENT_WAYS = _WAYS | {
    Side.UP: rf"{_WAYS[Side.UP]}|take off|off the (?:ground|floor)",
    Side.DOWN: rf"{_WAYS[Side.DOWN]}|{_TOLD}land|(?:get|go) (?:on|to) (?:the )?(?:ground|floor)",
}
_FORBIDDEN = re.compile(
    r"(?<!if you )(?<!if you do )(?<!unless you )(?<!if )(?<!or )\b(?:not|don t|dont|never|cannot|can t|mustn t) "
    rf"(?:you |ever |even |just |please |dare |try |to )*(?:{_MOVE} {_TO}|{_KEEP})?"
    rf"(?:{'|'.join(_URGENT_WAYS.values())})\b(?! (?:than|so|as|too)\b)"
)
_FROM = (
    r"\b(?:from (?:the |your |its |my |our |over )*(?:(?!here |there )\w+ )?"
    r"|(?:mind|watch|careful|beware|look out)(?: out)?(?: (?:on|to|of|for))? (?:the |your |(?=your )))(?:{words})\b"
)
_RETREAT = re.compile(  # "back up" may be a climb
    r"\b(?:go ahead and )?(?<!come )(?<!go )(?<!get )(?<!fly )(?<!head )(?<!climb )(?<!rise )(?<!straight )(?<!right )"
    r"(?<!it )(?<!in )(?<!the )(?<!your )(?<!not )(?<!don t )(?<!dont )(?<!never )(?:back(?: off| away|( up))|reverse)"
    rf"(?: now| slowly| slightly| please| by| about)*"
    rf"(?:{_CLAUSE_END}|(?= (?:{_SOME}|an? (?:bit|tad|touch|little|smidge)|from|and|then)\b))"
)
_REVERSED = re.compile(
    r"\b(?:opposite|other (?:way|one|left|right|hand|direction)|away|avoid|mirror|undo|retrace|reverse|not|don t|dont"
    r"|no|never|instead|wrong|dodge (?:the|it|that|this|him|her|them)|wait (?:, )?(?:no|actually|sorry|i)|actually"
    r"|sorry|scratch|rather|meant?|(?<!turn )(?<!look )(?<!spin )(?<!fly )around|out of|too far"
    r"|(?:turn|spin) (?:a ?)?round (?:and )?(?:\w+ )?back|(?:turn|spin) on (?:the|your) heels?"
    rf"|(?:forwards?|back(?:wards?)?|behind|up|down|{_UNIT}) again)\b"
)
_REVERSED_BEHIND = re.compile(  # "2 m left and return", "push in, then pull back the same distance"
    r"\b(?:(?:(?:and|then) (?:(?!and\b|then\b)\w+ ){0,6})?"
    r"(?:(?:the|that) same (?:distance|amount|again)|as far(?! as\b))"
    r"|return|same|other|(?<!take )(?<!taking )off)\b"
)
_HOMEWARD = re.compile(
    r"\b(?:come|go|head|fly|get|return|run|hurry|way|off|straight|back|(?:bring|take) (?:it|yourself))"
    r"(?: (?:on|off|over|back|right|straight|along|now|safely))* "
    r"(?:home|to (?:the |your |our )?(?:home|base|start(?:ing)?|station|dock|launch|take ?off)"
    r"|(?:to )?(?:where(?:ver)?|the (?:place|point|spot)) "
    r"(?:\w+ ){1,4}(?:start|began|came from|set off|took off|left)(?:ed)?)\b"
    r"(?! (?:\w+ )?(?:office|page|row|screen|plate|button|of)\b)"
)
"""Orders to go to where the robot has come from, of which nobody knows whether that is backwards."""
_NO_SIDE = r"(?!(?:\w+ )?(?:left|right|front|back|behind|above|below|up|down|ahead|ceiling|floor|ground)\b)"
_NOT_REVERSED = re.compile(  # "do not land"
    rf"^(?:(?:no(?= [,;:.!]| {_MOVE}\b)|actually|sorry|well|oh|er|um|uh|please|[,;:.!]) )+|(?: [,;:.!])? sorry$"
    r"|(?<=\bleft)(?: ,)? (?:around|off|out of) (?:the|this|that|my|our|an?) (?=\w)"
    r"|(?<=\bright)(?: ,)? (?:around|off|out of) (?:the|this|that|my|our|an?) (?=\w)"
    r"|\bat the (?:same|other) (?:speed|pace|height|time|end)\b|\bno need to (?:hurry|rush|panic|worry)\b"
    r"|\bwrong (?:room|house|place|floor)\b|\binstead of (?:standing|sitting|staying|hovering|waiting|hanging)\b"
    r"|\bnot (?:(?:too|so|that|very) )?(?:fast|quick(?:ly)?|slow(?:ly)?|hasty|hard|close|much|rough(?:ly)?|loud)\b"
    rf"|\b(?:avoid|away from) (?:the|that|this|my|an?) {_NO_SIDE}\w+"
    rf"|^(?:\w+ ){{1,3}}(?:forwards?|back(?:wards?)?|up|down) again(?: please)?$|"
    rf"\b{_MOVE} away (?:{_SOME} )?(?:to (?:the |your )?)?(?:left|right)\b"
    r"|\bno (?:rush|hurry|worries|problem|stress|pressure|panic)\b"
    r"|(?<!\bi )(?<!you )(?<!we )(?<!they )\b(?:do not|don t|dont|never)(?: (?!(?:"
    + "|".join((*_WAYS.values(), *_PLACES.values()))
    + r"|that|this|it|one|so|do|don|dont|never|you|me|mean|mind|bother|want|like|think|say|way|side|other|opposite"
    rf"|not|no|instead|wrong|rather|a?round|again|back|same|avoid|reverse|return|undo)\b)\w+){{1,8}}{_CLAUSE_END}"
)
_CORRECTED = [  # "right, sorry, left" is left
    re.compile(
        rf"\b(?:to the )?{side}(?:wards?)?\b(?: (?:by|about|{_SOME}))*(?: [,;:.!])*"
        r"(?: (?:wait|oh|ah|er|um)(?: [,;:.!])*)*(?: (?:no|sorry|actually|i mean|i meant|or rather)(?: [,;:.!])*)+"
        rf"(?= (?:go |turn |fly |move )?(?:to the )?(?:{_SOME} )?{other}(?:wards?)?\b)"
    )
    for side, other in OPPOSITE.items()
]
_COMING = re.compile(
    r"\b(?:com(?:es|ing)|approach(?:es|ing)|fall(?:s|ing)|fl(?:ies|ying)|(?:watch|look|mind) out|careful)\b"
)
_LOOKED_AT = re.compile(  # "a picture from the left": where to be
    r"\b(?:pictures?|photos?|photograph(?:s|ed)?|pics?|shots?|shoot|snap|looks?|see(?! you)|seen|view|film|take|scan"
    r"|inspect|check)\b"
)
_ALONG = r"(?:push|slide|shove|shift|move|put|place|nudge|bring|set|carry|lay|drag)"
_ANY = r"(?!is |are |s |if |to )\w+ "
_THING = rf"(?!that |which |on |in |at |from |of |by |out |left |right ){_ANY}"
_PUT = re.compile(  # where an arm is to bring something, or itself
    rf"(?:(?:\b{_ALONG} (?:{_ANY}){{0,6}}to|\b(?:put|place|set|lay) (?:{_THING}){{1,4}}(?:on|in|at|into)"
    rf"|^(?=[^,;:.!?]*$)(?:{_THING}){{1,4}}to) (?:the |your )?"
    rf"|(?:{_CLAUSE_BEGIN}|\b(?:and|then|please) )(?:go|{_ALONG}) (?:{_THING}){{0,4}}(?<!the )(?<!your ))"
    rf"(left|right)(?: hand)?(?: side| area)?\b(?:{_CLAUSE_END}|(?= (?:and|then|please)\b))"
)
_LEG = rf"{_MOVE} (?:to the )?(left|right)(?: {_SOME}| by {_SOME}| \d+ degrees)?"
_TWO_LEGS = re.compile(rf"^(?:please )?{_LEG}(?: ,)? (?:and then|and|then) {_LEG}(?: please)?$")
_OTHER_AREA = {"left": "right_area", "right": "left_area"}
_MAY_BE_A_SIDE = re.compile(r"\b(?:write|wright|rite|reich|ri(?:hgt|gth)|lefft|swap|trade)\b")
"""Sides as they are misheard or mistyped."""


def _patterns(words: dict[Side, str], form: str = r"\b(?:{words})\b") -> dict[Side, re.Pattern[str]]:
    return {side: re.compile(form.replace("{words}", each)) for side, each in words.items()}


_WARNING = re.compile(_FROM.replace("{words}", "|".join(_PLACES.values())))
_NAMED, _URGENTLY_NAMED = _patterns(_WAYS), _patterns(_URGENT_WAYS)
_MENTIONED, _WARNED_OF = _patterns(_PLACES), _patterns(_PLACES, _FROM)


@dataclass(slots=True)
class DirectionCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: which way a skill moves it.
        instruction: As it came; untrusted.
        is_urgent: Whether it reports an emergency: every side that it names, and orders no motion to, is a threat's;
            if it names none, the threat is taken to be in front.
        is_replan: Whether an earlier plan has failed: another way may be needed, but none towards a threat.
        heading_rad: How far the robot has turned to the left since the instruction came; nan if that is not known.
    """

    model: RobotModel
    instruction: str
    is_urgent: bool = False
    is_replan: bool = False
    heading_rad: float = 0.0
    _threats: frozenset[Side] = field(init=False)
    _is_side_named: bool = field(default=False, init=False)
    _named: frozenset[Side] = field(init=False)
    _is_reversed: bool = field(init=False)
    _named_before: frozenset[Side] | None = field(init=False)  # before a word such as "return", if there is one
    _gone_to: set[Side] = field(default_factory=set, init=False)
    _legs: list[Side] = field(init=False)
    _leg_moves: bool | None = field(default=None, init=False)  # what the present leg is: a motion, or a turn
    _is_homeward: bool = field(init=False)
    _is_climb: bool = field(init=False)
    _is_landing: bool = field(init=False)
    _wrong_area: str | None = field(default=None, init=False)
    _is_turned: bool = field(default=False, init=False)
    _gone: dict[tuple[bool, Side], float] = field(default_factory=dict, init=False)
    _moved_m: dict[Side, float] = field(default_factory=lambda: dict.fromkeys(Side, 0.0), init=False)

    def __post_init__(self) -> None:
        text = " ".join(re.findall(r"[a-z0-9]+|[,;:.!?](?=\s)", self.instruction[:4096].lower()))
        put = _PUT.search(text)
        if put and len({*re.findall(r"\b(?:left|right)\b", text)}) == 1 and not _MAY_BE_A_SIDE.search(text):
            self._wrong_area = _OTHER_AREA[put[1]]
        text = _NOT_A_SIDE.sub(self._kept, text)
        named = _URGENTLY_NAMED if self.is_urgent else _NAMED
        is_down = _NAMED[Side.DOWN].search(text)
        text = _RETREAT.sub(lambda found: found[0] if is_down and found[1] else f"retreat{found[1] or ''}", text)
        forbidden = _sides(named, " , ".join(_FORBIDDEN.findall(text)))
        text = _FORBIDDEN.sub(" ", text)
        for corrected in () if self.is_urgent else _CORRECTED:
            text = corrected.sub("", text)
        told = _ORDERED.sub(" ", text)  # where something is, or comes from
        self._named = _sides(named, _WARNING.sub(" ", text))
        self._is_climb, self._is_landing = _CLIMB.search(text) is not None, _LAND.search(text) is not None
        self._is_homeward = _HOMEWARD.search(text) is not None and not self.is_urgent
        legs = _TWO_LEGS.match(text)
        self._legs = [*map(Side, legs.groups())] if legs else []
        is_ordered = self.is_urgent and told != text
        orders = _NOT_REVERSED.sub(" ", text)
        self._is_reversed = _REVERSED.search(orders) is not None and not is_ordered
        back = None if is_ordered else _REVERSED_BEHIND.search(orders)
        self._named_before = _sides(named, _WARNING.sub(" ", orders[: back.start()])) if back else None
        if self.is_urgent:
            unclear = _sides(_MENTIONED, " , ".join(_MAY_BE_ORDERED.findall(told)))
            warned = _sides(_MENTIONED, told) | {OPPOSITE[side] for side in unclear}
            self._threats = (warned or frozenset({Side.FRONT}) - self._named) | forbidden
            self._is_side_named = bool(warned | forbidden) and self._named <= self._threats
            self._named -= self._threats
        else:
            warned = _sides(_WARNED_OF, told)
            if _LOOKED_AT.search(told) and not _COMING.search(told):
                warned = frozenset()
            self._threats = (warned | forbidden) - self._named

    def ways_out(self) -> frozenset[str]:
        """Returns the skills that move the robot to none of the sides that are named; none if none is named."""
        if not self._is_side_named:
            return frozenset()
        sides = {name: self._side(SkillCall(name)) for name in self.model.skills}
        return frozenset(name for name, (moves, side) in sides.items() if moves and side not in self._threats)

    def _kept(self, found: re.Match[str]) -> str:
        """Returns what is kept of words that name no side: "is left" says where a thing is, in an emergency."""
        return found[0] if self.is_urgent and _IS_LEFT.match(found.string, found.start()) else " "

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement.

        Args:
            calls: Of the statement; those of a loop once.
            text: The statement in MiniSpec, with the rounds of its loops.
        """
        num_rounds = math.prod(map(int, _ROUNDS.findall(text)))
        for call in [*calls] * min(num_rounds, MAX_CALLS):
            moves, side = self._side(call)
            is_way_back = self._is_way_back(call, moves, side)
            is_nearer = moves and side in self._threats and not is_way_back
            if self._comes_nearer(call) if self.is_urgent else is_nearer:
                return self.contradicted(f"{_said(call)} goes to the side that the instruction warns of")
            is_other_way = not is_way_back and (self._is_other_way(side, moves=moves) or self._is_other_height(call))
            if is_other_way or self._is_wrong_area(call):
                return self.contradicted(f"{_said(call)} goes another way than the instruction says")
            if side is not None:
                self._gone_to.add(side)
        return Verdict.EXPLAINED

    def restarted(self) -> "DirectionCheck":
        """Returns the check of a replan: towards a threat is as wrong as before."""
        heading_rad = math.nan if self._is_turned else self.heading_rad  # nobody knows which turns were carried out
        return replace(self, is_replan=True, heading_rad=heading_rad)

    def _is_way_back(self, call: SkillCall, moves: bool, side: Side | None) -> bool:
        """Notes how far a call goes or turns; returns whether the plan has gone as far the other way before."""
        if side is None:
            return False
        amount = _amount(call)
        before = self._gone.get((moves, OPPOSITE[side]), 0.0)
        self._gone[moves, OPPOSITE[side]] = before - amount
        self._gone[moves, side] = amount - before
        return amount <= _ROUNDED * before

    def _comes_nearer(self, call: SkillCall) -> bool:
        """Follows a call; returns whether it may bring the robot nearer to a threat than it was at first."""
        effect = self.model.skills[call.name].effect
        self._is_turned |= isinstance(effect, Turn | Orient | Scan | Approach | GoTo)
        if isinstance(effect, Turn):
            self.heading_rad += effect.direction * math.radians(_amount(call))
        elif isinstance(effect, Orient | Scan | Approach | GoTo):
            self.heading_rad = math.nan
        elif isinstance(effect, Land):
            return Side.DOWN in self._threats
        if not isinstance(effect, Translate):
            return False
        x, y, z = (_amount(call) * effect.unit_m * each for each in effect.axis)
        if x or y:
            turned = complex(x, y) * cmath.rect(1.0, self.heading_rad)
            x, y = turned.real, turned.imag
        for (ahead, behind), step in zip(AXES, (x, y, z), strict=True):
            self._moved_m[ahead] += step
            self._moved_m[behind] -= step
        return any(not self._moved_m[side] < _TOLERANCE_M for side in self._threats)

    def _is_other_way(self, side: Side | None, *, moves: bool) -> bool:
        """Whether the instruction orders the opposite direction only, and has no word that turns it round."""
        if side is None or self.is_replan or self._is_reversed:
            return False
        if self._legs and side in (Side.LEFT, Side.RIGHT):
            is_next = self._leg_moves is not None and (self._leg_moves != moves or side is not self._legs[0])
            if is_next and len(self._legs) > 1:
                self._legs.pop(0)
            self._leg_moves = moves
            return side is not self._legs[0]
        if self._is_homeward and moves and side is Side.BACK and side not in self._named:
            return True  # "head back home" without having gone forward
        opposite = OPPOSITE[side]
        is_behind = self._named_before is not None and (opposite in self._gone_to or opposite not in self._named_before)
        return opposite in self._named and side not in self._named and not is_behind

    def _is_wrong_area(self, call: SkillCall) -> bool:
        """Whether a call of an arm ends on the other side of the only one that something is ordered to."""
        is_reversed = self._is_reversed or self._named_before is not None
        return self._wrong_area in call.arguments[-1:] and not self.is_replan and not is_reversed

    def _is_other_height(self, call: SkillCall) -> bool:
        """Whether it lands where an emergency orders a climb, or takes off where it orders a landing."""
        if not self.is_urgent or self.is_replan or self._is_reversed:
            return False
        effect = self.model.skills[call.name].effect
        if isinstance(effect, Land):
            return self._is_climb and Side.DOWN not in self._named
        return isinstance(effect, TakeOff) and self._is_landing and Side.UP not in self._named

    def _side(self, call: SkillCall) -> tuple[bool, Side | None]:
        """Returns whether a call moves the robot from where it is, and which way it goes or turns."""
        effect = self.model.skills[call.name].effect
        if isinstance(effect, Turn) and call.arguments and call.arguments[0] in _HALF_OR_FULL:
            return False, None  # either way round leads to the same
        return isinstance(effect, Translate), side_of_effect(effect)


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
    said = (f"{each:g}" if isinstance(each, float) else str(each) for each in call.arguments)
    return f"{call.name}({','.join(said)})"


def _amount(call: SkillCall) -> float:
    return next((argument for argument in call.arguments if isinstance(argument, float)), math.nan)
