# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction rules out or takes back: a plan that acts on one has understood the opposite.

"Not the blue folder, the other one", "everything bar the pliers", "the bearing, no wait, the bushing". A thing
counts if the instruction speaks of it nowhere else. What may be asked about it or said of it is not judged. "Don't lift
the vase" rules out that it is lifted, and it may be pushed. "Don't land" rules out a landing, if the instruction orders
none elsewhere. What is forbidden for a time only ("not yet", "not until ...") must not be what a plan does first.
Behind "if it rains, ..." nothing is judged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mentions import MARK
from llm_planner.planning.instruction.names import acted_on, bare_words, name_words
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.untrusted import scene_names
from llm_planner.robots.effect import (
    Approach,
    GoTo,
    Grasp,
    Gripper,
    Home,
    Land,
    MoveTool,
    Place,
    Push,
    Stop,
    TakeOff,
    TakePicture,
    Translate,
    Turn,
)
from llm_planner.robots.model import RobotModel
from llm_planner.robots.record import Record

_OPEN, _CLOSE = Gripper(is_open=True), Gripper(is_open=False)
_ARTICLE = r"(?:the|that|thi|those|these|my|your|our|his|her|their|an?)"  # as ``bare_words`` have them
_PREPOSITION = r"(?:to|in|into|on|onto|at|for|toward|with|by|over|from)"
_EXCEPT = (
    r"(?:except(?:ing)?(?: for)?|excluding|(?:apart|aside) from|other than|with the exception of|barring|minu|save for"
    r"|not counting|leaving out)"
)
_RULED_OUT = re.compile(
    r"(?<!\bif )(?<!\bif it )(?<!\bif they )(?<!\bthere )(?<!\bor )"
    rf"\b(?:not|neither|nor|never|{_EXCEPT}|isnt|wasnt|instead of|rather than"
    r"|(?:dont|do not) mean|any(?:thing|one|body|where) but)"
    rf" (?:{_PREPOSITION} )?{_ARTICLE} "
    rf"|(?<!\bthe )(?<!\band )(?<!\bthen )(?<!\bto )(?<!\byou )(?<!\bplease )\b(?:bar|(?<=\w )save) {_ARTICLE} "
    r"|\b(?:all|every(?:thing|one|body|where)?|each|whole|lot)"
    rf"(?: (?!(?:{_PREPOSITION}|is|are|was|were|look|done|right|ready|fine|good|well|set|clear) )\w+){{0,4}}"
    rf" (?:but|bar|save)(?: for)? (?:{_ARTICLE} )?"
    rf"|\b{_EXCEPT} (?:any )?(?!{_ARTICLE} )"
)
_NOTHING = re.compile(
    r"\b(?:nothing|none|nobody|no one|no other)\b(?: \w+){0,6} $"
    r"|\b(?:ive|weve|youve|(?:i|we|you) have|(?:i|we)(?= \w+ed ))(?: already)? \w+ $"
)
"""Before what is ruled out: "nothing goes left except the spoon" and "I've packed all but the cup" ask for that."""
_NOT_OTHERS = r"(?<!\bi )(?<!\bwe )(?<!\bhe )(?<!\bshe )(?<!\bthey )"
_NOBODY = (
    r"(?<!\bif )(?<!\bwhen )(?<!\buntil )(?<!\bwhile )(?<!\bthere )(?<!\bthere is )(?<!\bis there )(?<!\bhas )"
    r"(?:nobody|no one|none of you|no (?:robot|drone|machine))"
    r"(?: (?:(?:(?:is|are|get) )?(?:(?:allowed|supposed|permitted) )?to|may|must|should|shall)"
    r"|(?!.* (?:it|them|you)\b))"
)
"""What holds for everybody, and so for the robot: "nobody's to touch the vase"."""
_FORBIDDEN = (
    rf"\b(?:{_NOBODY}|(?<!why ){_NOT_OTHERS}(?:dont(?: you)?(?: dare)?|(?:do|must) not|mustnt|never)"
    r"|(?<=\byou )(?<!\bbet you )(?:shouldnt|should not|cant|cannot|can not|may not"
    r"|(?:are not|arent)(?: allowed| supposed)? to|are (?:forbidden|prohibited) to)"
    r"|youre (?:not(?: allowed| supposed)?|forbidden|prohibited) to"
    rf"|{_NOT_OTHERS}(?<!\bam )(?<!\bim )(?<!\bwe are )(?<!\bthey are )(?<!\bwere )(?<!\btheyre )(?<!\bhe is )"
    r"(?<!\bshe is )(?<!\bkid are )(?<!\bchild are )(?<!\bperson are )(?<!not )(?<!isnt )"
    r"(?:forbidden|prohibited|not allowed|dangerou|unsafe) to"
    r"|(?<!\bthere )no(?= \w+ing\b)"
    r"|(?:do(?:es)?nt|do not) (?:want|let) (?:you|person(?!.* (?:it|them)\b))(?: to)?|avoid|without)"
    r"(?: (?:ever|(?:need|have|try|dare) to))? "
)
_PUTTING = rf"{_FORBIDDEN}(?:put|plac|lay|set|drop|throw|chuck|toss)(?:[bpt]?ing|e)? "
_INTO = " (?:in|into|on|onto)"
_FORBIDS_PUTTING = re.compile(_PUTTING)
_NOT_DENIED = r"(?<!dont )(?<!not )(?<!never )(?<!need to )(?<!why )\b"
"""Before an order that forbids without a negation: "stay away from the dog", and not "don't stay away"."""
_STOPPED = (
    rf"{_NOT_DENIED}(?:(?:no|stop|abort|cancel)(?: (?:the|your|any))? (?=\w+ing\b|takeoff\b|(?:picture|photo)\b)"
    r"|(?:abort|cancel) (?:the|your) )"
)
_TO = r"(?:(?:anywhere |too )?(?:near(?: to)?|close to)|up to|to|toward|in|into|at)"
_KEPT_AWAY = (
    rf"{_NOT_DENIED}(?:avoid(?:ing)?|(?:keep|stay) (?:well )?(?:clear of|off|out of)"
    r"|(?:keep|stay|fly|move|go|get|back|come|step) (?:well |right )?away from)"
)
_CLAUSE_BEGINS = (
    r"(?:^|(?<=[,;] )|(?<=\band )|(?<=\bbut )|(?<=\bthen )|(?<=\bjust )|(?<=\bplease )|(?<=\bso )|(?<=\bnow ))"
    r"(?:(?:ok|okay|actually|please|let|you (?:can|may|should)|(?:can|could|would) you|i want you to) )*"
)
_LET_BE = r"(?=(?: \w+){2,6} (?:alone\b(?! (?:in|on|at)\b)|where (?:it is|they are)\b|be[,;]))"
_FOR_ANOTHER = (
    rf"(?=(?: \w+){{2,4}}(?:[,;]|,? and|,? but)(?: (?:i|please|just|so|you))* "
    rf"(?:want|need|take|pick|get|bring|grab|fetch|lift)(?: up)? {_ARTICLE} )"
)
"""Before a thing, and behind it the order for another one: "leave the knife, take the cup"."""
_KEPT = (  # "but keep the receipt"
    rf"(?= {_ARTICLE} \w+(?: \w+)?"
    rf"(?:[,;]| and\b(?! (?:{_ARTICLE} )?\w+ (?:in|into|on|onto|at|together)\b)| but\b))(?!.* (?:it|them)\b)"
)
_ONLY = (
    rf"(?: (?:{_ARTICLE}|any))? (?!{_ARTICLE} )(?!(?:(?!(?:go|fly|move|come|turn|look|drive|land) )\w+,? ){{1,2}}"
    rf"(?:{_PREPOSITION}|of|off|out|near|next|behind|under|that|which|who|more|so|too|again)\b)"
    r"(?!(?:\w+ ){1,2}(?:fast|quickly|roughly|hastily|abruptly|suddenly)\b)"
)
"""A thing with nothing behind it: "don't take the cup to the kitchen" lets it be taken."""
_PROHIBITIONS: Sequence[tuple[re.Pattern[str], Sequence[type[Record]]]] = [
    (re.compile(rf"(?:{what}){_ONLY}"), effects)
    for what, effects in (
        (rf"{_FORBIDDEN}(?:go|fly|driv|head|mov|return|get|com)(?:t?ing|e)?(?: back| over)? {_TO}", (GoTo, Approach)),
        (rf"{_FORBIDDEN}(?:approach|follow)(?:ing)?(?: to)?|{_KEPT_AWAY}", (GoTo, Approach)),
        (rf"{_FORBIDDEN}(?:pick|tak|lift|grab|grasp|grip|rais|fetch|get)(?:[bpt]?ing|e)?(?: up)?", (Grasp,)),
        (rf"{_FORBIDDEN}(?:touch|mov|us|handl|disturb)(?:ing|e)?", (Grasp, Push)),
        (rf"{_FORBIDDEN}(?:push|slid|shov|nudg)(?:ing|e)?", (Push,)),
        (rf"{_NOT_DENIED}leave(?: alone|{_LET_BE})", (Grasp, Push, GoTo, Approach)),
        (rf"{_CLAUSE_BEGINS}(?:ignore|forget(?: about)?)", (Grasp, Push, GoTo, Approach)),
        (rf"\bhand off(?!.* (?:it|them)\b)|{_NOT_DENIED}(?:leave|careful with){_FOR_ANOTHER}", (Grasp, Push)),
        (rf"\b(?:never mind|(?:dont|do not) (?:want|need)){_FOR_ANOTHER}", (Grasp, Push, GoTo, Approach)),
        (rf"(?:{_CLAUSE_BEGINS}(?:keep|save|spare)|(?<=\bbut )(?:hang|hold) on ?to){_KEPT}", (Grasp, Push)),
        (rf"{_PUTTING}(?:it|them|that){_INTO}", (Place,)),
    )
]
"""What an instruction forbids to do with a thing, and what would do so."""
_NOT_AT_ALL = [pattern for pattern, effects in _PROHIBITIONS if Grasp in effects and Push in effects]
_CORRECTS = "|".join(
    rf"(?<=\b{word}{mark} )" for word in ("no", "nah", "nope", "wait", "sorry", "actually", "but") for mark in ("", ",")
)
_CANCELLED = re.compile(rf"(?:{_CORRECTS})(?:scrap|scratch|skip|cancel|forget(?: about)?|leave out|never mind){_ONLY}")
"""What takes back that something is done with a thing, whatever was said of it before."""
_MAY_TAKE_BACK = re.compile(
    r"\b(?:no|nope|nah|sorry|actually|mean|meant|thought|rather|instead|scratch|wait|correction|never|well|else|otherwise"
    r"|if|unless|when|until|till?|while|before|after|afterward|once|then|first|yet|now|later|only|just)\b"
)
"""Words with which a thing may be left alone at one time, and be moved at another."""
_NEXT_THING = re.compile(
    rf"(?:\w+ ){{0,3}}?\w+(?:,? n?or (?:{_ARTICLE}|any) |, {_ARTICLE} (?=\w+(?: \w+)?,? n?or )"
    rf"|,? and (?:{_ARTICLE}|any) (?=\w+(?: \w+)?(?:[,;]|$| (?:and|or|but|alone)\b)))"
)
"""From one thing of a list to the next; "and the plate goes on the tray" is none."""
_TIME = "until|till?|before|unless|in case|(?:if|when|once)(?! (?:you ?a?re )?(?:ready|possible)\\b)|while"
_IN_A_CASE = re.compile(
    rf"(?:^| )(?:{_TIME}) [^,;]*(?<! and)(?<! but)(?<! or)$"
    rf"|(?:^|[,;] )(?:\w+ )?(?:{_TIME}) [^,;]*[,;](?: (?:then|please|so|just|you))*$"
)
_FOR_A_TIME = re.compile(
    rf"(?:(?! (?:and|but|then) (?!{_ARTICLE} ))[^,;])*\b(?:yet|first|{_TIME})\b"
    r"|[^,;]*[,;] (?:until|till?|before|unless)\b"
)
"""What limits a prohibition to a case or a time, in front of it and behind it: words of its clause or next to it."""
_LIMIT = re.compile(rf" \b(?:{_TIME})\b.*?(?=[,;]| then\b)")
_TAKEN_UP = re.compile(r"\b(?:it|them|that|one|do|now|ok|okay)\b")
"""Behind the limit of a prohibition: words that may order what it forbids until then."""
_NEAR = 32  # words
_OWN_ORDER = re.compile(r"(?:one )?(?:that|it|which|they)(?: one)? (?:can|go|in|on|into|onto|to|should|shall|belong)\b")
"""Behind what is ruled out for one thing: "not the cup, that goes in the sink"."""
_WHY = "there|because|since|someone|somebody|hes?|she|they(?:re)?|im?|you(?:re)?|now"
"""What may follow an act that is forbidden, without a mark: its reason."""
_NOT_TO_BE_MOVED = re.compile(
    r"(?:(?:you |just )*(?:leave|let|keep) (?:it|them|that) (?:be|alone|in place|(?:right )?(?:where|there|here))\b"
    r"|(?:itself )?(?:(?:should|must|shall|will|can|is to|are to) )?(?:stay|remain) (?:put|in place|where|there|here)\b"
    r"|(?:(?:must|may|shall|should|can|is|are) not|mustnt|shouldnt|cannot|cant|isnt|arent)(?: to)? be "
    rf"(?:moved|touched|taken|handled|disturbed)(?: at all| please| ever| by \w+| under any circumstance)*"
    rf"(?=[,;]| (?:and|but|so|it|{_WHY})\b)"
    rf"|(?:(?:i|ill|id like to|i want to) keep|(?:is|are) to be kept"
    r"|(?:is|are) (?:off limit|out of bound)"
    rf"|{_NOBODY} (?:touch|move|lift|take|handle)(?: (?:it|them))?)(?=[,;]))"
)
"""Behind a thing."""
_STAYS = re.compile(
    r"(?:itself )?(?:(?:(?:should|must|shall|will|can|may|is to|are to) )?(?:stay|remain)|excepted|excluded"
    r"|(?:please )?not?)"
    r"(?=[,;]| (?:and|but)\b)(?!.* (?:it|them|that|thi)\b)"
)
"""The same without a mark before it: "the green one stays", and not "take the green one, stay"."""
_ITS_THING = rf"(?: (?:it|them|that|thi|{_ARTICLE} \w+(?: \w+)?))"
_WHERE_OR_WHY = (
    rf"(?: (?:{_WHY}|it|its|{_ARTICLE}|on|onto|in|into|inside|near|next|over|by|beside|under|with(?! an?\b)|will|would"
    rf"|could|i|are)\b(?:(?! (?:and|but|then|just|only|yet|first|{_TIME})\b)[^,;]){{0,120}})?"
)
"""What may follow one that is done to nothing: where it is forbidden, or why, to the end of the clause."""
_ORDER_BEGINS = (
    r"(?:(?:^|[,;] )(?:(?:ok|okay|hey|all right|yes|robot|drone|tello|arm)(?: \d+)? )*"
    r"|\b(?:and|but|then|just|only|please|so|now|instead|to|first|later|rather|let(?: us)?|can|should|do|you must"
    r"|(?:would|could|will|might)(?= you )) )"
    r"(?:yes )?(?:you )?(?:\w{2,}ly )?"
)
_NO_ORDER = r"(?! (?:there )?(?:is|are)\b(?! (?:fine|ok|okay|good)\b))"
"""Behind words that would be an order: "left is a wall", "up there is a cable"."""
_TURNS = (
    "turn|rotate|spin|a?round|(?:anti ?|counter ?)?clockwise|degree|face|look|toward|way|left|right|swivel|point|swing"
)
_MOTIONS = (
    "move|go|fly|come|get|head|step|slide|shift|back|forward|ahead(?! of)|up|down|left"
    "|right(?! (?:behind|next|beside|in|under|over|above|there))|closer|nearer|rise|climb|drop|descend|lower|higher"
    "|sink|duck|reverse|retreat|hop|elevate|approach|follow|advance"
)
_LETTING_GO = (
    rf"(?:open(?:ing)?|(?:let(?:ting)? go|release|releasing)(?: of)?){_ITS_THING}?"
    rf"|(?:drop(?:ping)?|los(?:e|ing)){_ITS_THING}"
    rf"|let(?:ting)?{_ITS_THING} (?:go|drop|fall|slip)"
)
_HANDING = (
    rf"let(?:{_ITS_THING})? (?:go|down|drop|fall|open)|let me (?:have|take) (?:it|them|that)"
    rf"|give(?! (?:me|us) (?:an?|one) (?:second|sec|moment|minute))|hand (?:it|them|me|over|{_ARTICLE})"
)
_SPOT = (
    rf"(?:on|next to|beside|near|by) (?:it|me|{_ARTICLE})\b"
    r"(?![^,;]*\b(?:there|is(?! (?:fine|ok|okay|good)\b)|are)\b)"
)
"""Where a landing is ordered instead: "on the mat", and not "on the mat is a child"."""
_PHOTO = r"(?:picture|photo)(?: (?:of|in)\b[^,;]*)?"  # "no photos of the children"
_GOING_HOME = "(?:go|mov|return|com|driv|head)(?:e|ing)?(?: back)?(?: to(?: the| your)?)?"
_HANDLING = "pick|take|put|place|push|bring|grab|grasp|lift|home|return|hover|lay|set"
_ACTS: Sequence[tuple[str, str, str, Sequence[object]]] = [
    (
        "taking off",
        rf"(?:tak(?:e|ing)|lift(?:ing)?) ?off{_WHERE_OR_WHY}|takeoff",
        "(?:take|lift) ?off|takeoff|up|(?:get|come|move) up|rise|climb|ascend|fly|hover|go|higher|raise|lift|gain",
        (TakeOff, (0, 0, 1)),
    ),
    (
        "landing",
        rf"land(?:ing)?{_WHERE_OR_WHY}|descend(?:ing)?|(?:touch(?:ing)?|go(?:ing)?|com(?:e|ing)) down",
        rf"land|down|descend|(?:go|come|get|fly|move|touch|set(?: it)?|put it) down|{_SPOT}",
        (Land,),
    ),
    (
        "stopping",
        rf"(?:stop(?:ping)?|halt(?:ing)?){_WHERE_OR_WHY}",
        "stop|halt|hover|wait|hold|stay|freeze|stand",
        (Stop,),
    ),
    ("turning", "(?:turn(?:ing)?|rotate|rotating|spin(?:ning)?)(?: a?round)?", _TURNS, (Turn,)),
    ("moving", "mov(?:e|ing)", _MOTIONS, (Translate, Approach, GoTo)),
    (
        "moving",
        "move(?: (?:the|your) (?:arm|gripper|hand))?",
        f"{_MOTIONS}|{_HANDLING}",
        (MoveTool, Home, Grasp, Place, Push),
    ),
    (
        "taking a picture",
        rf"tak(?:e|ing) (?:(?:any|an?|the) )?(?:picture|photo|photograph|pic)|{_PHOTO}",
        r".*\b(?:picture|photo(?:graph)?|pic|snap|shoot|shot|film|capture|image|(?:have|take|get) one(?! step))",
        (TakePicture,),
    ),
    (
        "gripping it",
        r"pick(?:ing)? (?:it|them) up|(?:(?:pick|lift|grasp)(?:ing)?(?: up)?|gr(?:ab|ip)(?:\wing)?) (?:it|them)",
        "pick|grab|grasp|grip|take|lift|get|bring|put|place|lay|set|carry|fetch|hand|give|move|transfer",
        (Grasp,),
    ),
    ("opening", f"(?:{_LETTING_GO}){_WHERE_OR_WHY}", f"open|release|drop|put|place|lay|set|pass|{_HANDING}", (_OPEN,)),
    (
        "closing",
        rf"(?:close|closing|shut(?:ting)?|grip(?:ping)?|squeez(?:e|ing)){_ITS_THING}?{_WHERE_OR_WHY}",
        "close|shut|grip|grab|hold",
        (_CLOSE,),
    ),
    (
        "going home",
        rf"(?:{_GOING_HOME} )?home(?: position)?{_WHERE_OR_WHY}",
        rf"home|return|go(?=[,;])|{_GOING_HOME} home",
        (Home,),
    ),
    *(
        (f"going {side}", rf"(?:going|moving|flying) {side}(?:ward)?{same}", rf"{side}\w*{others}", (axis,))
        for side, axis, same, others in (
            ("forward", (1, 0, 0), "", "|ahead|on"),
            ("back", (-1, 0, 0), "", ""),
            ("left", (0, 1, 0), "", ""),
            ("right", (0, -1, 0), "", ""),
            ("up", (0, 0, 1), "|climbing|rising|ascending", "|higher|climb|rise|ascend"),
            ("down", (0, 0, -1), "|sinking|descending", "|lower|sink|descend|drop"),
        )
    ),
]
"""What an instruction forbids to do at all, the words that would order it elsewhere, and what would do so."""
_INSTEAD_OF = {
    "taking off": rf"{_NOT_DENIED}(?:stay|remain|keep) (?:down )?on the (?:ground|floor)",
    "going home": r"\bhome (?:you )?(?:need not|neednt|(?:dont|do not) (?:need|have) to)(?: go| fly| come| move)?",
    "opening": rf"{_NOT_DENIED}(?:keep hold(?:ing)?(?: of| on to| onto)?|(?:hold|hang) on ?to){_ITS_THING}",
}
"""Orders that forbid an act as well."""
_NOT_FORBIDDEN = re.compile(
    r"\b(?:say|tell|announce|broadcast|shout|warn|sorry|actually|i mean|scratch|correction|otherwise|else|after"
    r"|you (?:may|can)|do (?:it|so|one))\b"
)
_TOLD_BY_A_LOOK = re.compile(rf"\b(?:{_EXCEPT}|bar|save) the one (?:that|which|who|with)((?: \w+){{1,5}})")
"""What is ruled out by what it is like, and not by a name: "the one that leaks"."""
_REGRETS = "no|nope|nein|sorry|rather|oop|i mean|i meant"
_TAKEN_BACK = re.compile(
    rf" (?:(?:or|um|uh|oh|er|wait|hang on|hold on) )*(?:{_REGRETS}|make that|scratch that|correction)"
    rf"(?: (?:{_REGRETS}|(not)|wait|actually|um|uh|oh|er|that))* the (?!other|same|thing|way)"
)


@dataclass(slots=True)
class ExclusionCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: which arguments are names, and which skills act.
        instruction: As it came; untrusted.
        is_urgent: Whether it warns of a danger: the things that it names are not judged, only acts.
        scene: As the model is shown it: a thing may be called by a word of its name that no other one has.
    """

    model: RobotModel
    instruction: str
    is_urgent: bool = False
    scene: str = ""
    _seen: Sequence[str] = field(init=False)
    _words: Sequence[str] = field(init=False)
    _marked: Sequence[str] = field(init=False)
    _starts: frozenset[int] = field(init=False)
    _ends: frozenset[int] = field(init=False)
    _repeats: Mapping[int, int] = field(init=False)  # "the cup, no, not the cup": from what is taken back to "cup"
    _has_begun: bool = field(default=False, init=False)
    _needs_a_look: bool = field(init=False)  # what is ruled out has no name

    def __post_init__(self) -> None:
        pieces = [*MARK.split(self.instruction[:4096]), ";"]
        clauses = [[*map(_who, bare_words(clause))] for clause in pieces[::2]]
        marks = ["," if mark == "," else ";" for mark in pieces[1::2]]
        self._words = [word for clause in clauses for word in clause]
        self._marked = " ".join(
            " ".join(clause) + mark for clause, mark in zip(clauses, marks, strict=True) if clause
        ).split()
        marked, text = " ".join(self._marked), " ".join(self._words)
        ruled_out = _RULED_OUT.finditer(marked)
        self._starts = self._listed(m for m in ruled_out if not _NOTHING.search(MARK.sub("", marked[: m.start()])))
        taken_back = [(_words_before(match), match[1]) for match in _TAKEN_BACK.finditer(text)]
        self._ends = frozenset(start + 1 for (start, _), is_not in taken_back if not is_not)
        self._repeats = {start + 1: end for (start, end), is_not in taken_back if is_not}
        self._seen = scene_names(self.scene)
        known = {word for name in self._seen for word in bare_words(name)}
        described = _TOLD_BY_A_LOOK.search(text)
        self._needs_a_look = bool(known and described and known.isdisjoint(described[1].split()))

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        for call in calls:
            excluded, self._has_begun = self._excluded(call), True
            if excluded:
                return self.contradicted(f"the instruction rules out {excluded}")
        return Verdict.EXPLAINED

    def restarted(self) -> "ExclusionCheck":
        """Returns the check of a replan: what is ruled out stays so."""
        return self

    def _excluded(self, call: SkillCall) -> str:
        """Returns what of a call the instruction rules out; empty if nothing."""
        effect = self.model.skills[call.name].effect
        names = acted_on(self.model, call) if not self.is_urgent else []
        if things := [name for name in names if self._rules_out(call, name)]:
            return f"the {things[0].replace('_', ' ')}"
        if isinstance(effect, (Grasp, Push)) and self._needs_a_look and names:
            return "one thing, and only a look can tell which"
        done = effect, type(effect), getattr(effect, "axis", None)
        acts = (
            act
            for act, what, other, effects in _ACTS
            if any(one in effects for one in done) and self._forbids(act, what, other)
        )
        return next(acts, "")

    def _rules_out(self, call: SkillCall, name: str) -> bool:
        """Returns whether the instruction speaks of what a call acts on only to rule it out."""
        effect = self.model.skills[call.name].effect
        is_target = isinstance(effect, Push) and name != call.arguments[0]
        is_moved = isinstance(effect, (Grasp, Push)) and not is_target
        starts = self._starts
        if not is_target:
            prohibitions = (what for what, effects in _PROHIBITIONS if type(effect) in effects)
            starts = starts.union(*map(self._forbidden_by, prohibitions))
        if isinstance(effect, Place) and name != call.arguments[0]:
            starts |= self._forbidden_to_put(" ".join(name_words(str(call.arguments[0]))))
        words = name_words(name)
        named: list[Sequence[str]] = [words]
        if len(words) > 1:
            of_the = [
                part for word in words for part in ((word, "the") if word in ("with", "of", "in", "on") else (word,))
            ]
            named += [[*words[:1], "one"], of_the, *self._short(name)]  # "not the big one", "not the man with the hat"
        text = " ".join(self._marked)
        for place in self._forbidden_by(_CANCELLED):
            if words and self._is_named_at(place, words) and words[0] not in self._words[place + len(words) :]:
                return True
        if is_moved and not _MAY_TAKE_BACK.search(text):  # "put the cup away and leave the cup where it is"
            never = frozenset().union(*map(self._forbidden_by, _NOT_AT_ALL))
            if any(self._is_named_at(place, words) for place in never):
                return True
        for said in named:
            places = [place for place in range(len(self._words)) if self._words[place : place + len(said)] == said]
            if said and places and all(self._is_out(place, said, starts, is_moved=is_moved) for place in places):
                return True
        return False

    def _is_named_at(self, place: int, words: Sequence[str]) -> bool:
        """Returns whether these words of a name stand there, and no more of another name of the scene."""
        said = (name for name in map(name_words, self._seen) if self._words[place : place + len(name)] == name)
        return self._words[place : place + len(words)] == words and max(map(len, said), default=0) <= len(words)

    def _short(self, name: str) -> Iterator[Sequence[str]]:
        """Yields the word that an instruction calls a thing of the scene by: the last one that no other thing has."""
        words = name_words(name)
        others = {word for other in self._seen if other != name for word in name_words(other)}
        said = [[word] for word in reversed(words) if word in self._words and word not in others]
        if name in self.scene and " ".join(words) not in " ".join(self._words):
            yield from said[:1]

    def _is_out(self, start: int, said: Sequence[str], starts: frozenset[int], *, is_moved: bool) -> bool:
        """Returns whether a thing is ruled out where the instruction names it, and nothing else is ordered of it."""
        end = start + len(said)
        if start in starts:
            return not _OWN_ORDER.match(" ".join(self._words[end : end + _NEAR]))
        behind = " ".join(self._marked[end : end + _NEAR])
        if is_moved and (_NOT_TO_BE_MOVED.match(behind) or (self._marked[end - 1].isalnum() and _STAYS.match(behind))):
            return True
        repeated = self._repeats.get(end, len(self._words))
        return end in self._ends or self._words[repeated : repeated + len(said)] == said

    def _forbidden_by(self, prohibition: re.Pattern[str]) -> frozenset[int]:
        """Returns before which words a prohibition ends that holds for the next call of the plan."""
        return self._listed(filter(self._holds, prohibition.finditer(" ".join(self._marked))))

    def _forbidden_to_put(self, thing: str) -> frozenset[int]:
        """Returns before which words it is forbidden to put a thing there."""
        if not _FORBIDS_PUTTING.search(" ".join(self._marked)):  # compiling a pattern takes longer than a model's step
            return frozenset()
        return self._forbidden_by(re.compile(rf"{_PUTTING}(?:(?:{_ARTICLE} )?{thing}){_INTO}{_ONLY}"))

    def _forbids(self, act: str, what: str, other: str) -> bool:
        """Returns whether the instruction forbids to do something, and nowhere orders it or takes that back."""
        text = " ".join(self._marked)
        pattern = re.compile(
            rf"(?:(?:{_FORBIDDEN}(?:\w+ n?or )?|{_STOPPED})(?:{what})|{_INSTEAD_OF.get(act, '(?!)')}"
            rf"|\b(?:{what})(?: here| there)? (?:is|are) (?:forbidden|prohibited|dangerou|unsafe|not (?:allowed|safe)))"
            rf"(?: here| at all| please| anywhere)*(?=[,;]| (?:and|but|just|only|yet|{_WHY}|{_TIME})\b)"
        )
        matches, rest = [*pattern.finditer(text)], pattern.sub("", text)
        if not self._has_begun:
            rest = _LIMIT.sub("", rest)
        if not matches or _NOT_FORBIDDEN.search(rest) or re.search(rf"{_ORDER_BEGINS}(?:{other})\b{_NO_ORDER}", rest):
            return False
        return all(map(self._holds, matches))

    def _holds(self, match: re.Match[str]) -> bool:
        """Returns whether the words of a match forbid something to the next call: always, or as yet.

        Not if they forbid it in a case only.
        """
        start, end = _words_before(match)
        before, after = " ".join(self._marked[max(0, start - _NEAR) : start]), " ".join(self._marked[end : end + _NEAR])
        if _IN_A_CASE.search(before):
            return False
        is_as_yet = not self._has_begun and not _TAKEN_UP.search(_LIMIT.sub("", f" {after}"))
        return is_as_yet or not _FOR_A_TIME.match(after)

    def _listed(self, matches: Iterable[re.Match[str]]) -> frozenset[int]:
        """Returns where the things behind matches of one clause begin, with those that a list adds to them."""
        listed: set[int] = set()
        places = map(_words_before, matches)
        fresh = {end for start, end in places if all(word.isalnum() for word in self._marked[start:end])}
        while fresh:
            listed |= fresh
            nexts = ((start, _NEXT_THING.match(" ".join(self._marked[start : start + _NEAR]))) for start in fresh)
            fresh = {start + match.group().count(" ") for start, match in nexts if match} - listed
        return frozenset(listed)


def _who(word: str) -> str:
    """Returns a word as the names of things have it."""
    return "person" if word in ("people", "anybody", "anyone") else word


def _words_before(match: re.Match[str]) -> tuple[int, int]:
    """Returns how many words of its text precede the beginning and the end of a match."""
    return match.string.count(" ", 0, match.start()), match.string.count(" ", 0, match.end())
