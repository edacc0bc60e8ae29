# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once, without a model: stop, hold still, let go.

Only a sentence that is such an order as a whole counts, at most with reports of what happens ("stop, you're hurting
me", "the glass is tipping, halt"). What goes on ("stop at the door", "don't move the cup") is a task. Behind a halt
that stands alone at its beginning ("stop, ..."), whatever orders nothing else is a report. A gripper opens only where
nothing is said besides the halt and what it holds or hurts. That a robot has caught a part of a body or clothes is such
an order as well, whether or not anybody says stop: no motion helps.
"""

import re
import unicodedata

from llm_planner.planning.instruction.cries import DO_NOT, is_cry
from llm_planner.robots.effect import Gripper
from llm_planner.robots.model import RobotModel

_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "please now right there here ok okay hey oi robot drone arm buddy lad mate guys everyone all immediately "
        "instantly this instant just i said say for god s sake goodness already quick quickly fast and "
        "then the a will you can could would me us stupid thing damn hell heaven exactly where are it that "
        "everything so no oh ah uh um yes hang literally of asap today what ever doing re your easy big love "
        "sweetheart darling honey thank thanks omg dude bro enough keep danger current mission task motion motions "
        "movement movements ouch ow argh fuck fucking bloody goddamn sir mister dear pet "
        "son friend fudge gosh dang crap shit jesus christ lord pls u r my youre yourself dead help alright everybody "
        "d hear",
    )
)
_STILL = (
    r"(?:right )?"
    r"(?:put|(?:very |perfectly |dead |stock )?still|steady|there|here|where you are|in (?:place|position)|"
    r"your position|quiet|motionless)"
)
_MOTION = r"(?:moving|flying|turning|spinning|rotating|going|drifting|climbing|descending)"
_WAY = r"(?:forwards?|backwards?|back|up|down|left|right|closer|away)"
_HALT = r"(?:st(?:o+|ah?)p+|halt|fre+ze)"
_FORBIDS = rf"(?:{DO_NOT}|never)"
_PERSON = (
    r"(?:kid(?:die)?s?|child(?:ren)?|baby|babies|toddlers?|boys?|girls?|man|men|woman|women|lady|person|people|patients?|"
    r"nurse|daughter|son|wife|husband|mother|father|friend|somebody|someone|dog|cat|puppy|kitten)"
)
_BODY = r"(?:hands?|fingers?|fingertips?|thumbs?|hair|beard|arms?|wrists?|skin|ears?|nose)"
_OWNER = (
    rf"(?:(?:both )?(?:me|(?:(?:my|his|her|our|their|a|the|that|this) )?{_PERSON} s|my|his|her|our|their)"
    r"(?: (?:left|right|other|little|whole|own|bare|long))?)"
)
_NOBODY_MOVES = (
    r"(?:(?:(?:nobody|no one|none of you|nothing)(?: (?:is|s|are|must|may))?(?: to)?|"
    rf"{DO_NOT} (?:anybody|anyone|any of you|nobody)) (?:moves?|moving|stirs?|budges?|breathes?|lifts? off|"
    r"takes? off|lands?|fl(?:y|ies)|goes anywhere)|"
    r"not (?:a|an|one|another|(?:even|so much as) an?) (?:\w+ )?(?:muscle|step|inch|move|twitch|"
    r"(?:milli|centi)met(?:re|er)|budge|wobble)(?: (?:further|back|closer|nearer))?)"
)
_STOP = (
    rf"{_HALT}(?: there)? (?:for )?a (?:sec|second|moment)",
    rf"(?:sto+p+|quit|cease) (?:it|that|everything|whatever|{_MOTION}(?: {_WAY})?)",
    r"sto+p+ (?:(?:the|your|all) )*(?:motors|propellers|props|rotors)",
    rf"(?:sto+p+|quit) (?:hurting|squeezing|crushing|pinching|pulling|pushing|dragging) (?:me|us|him|{_OWNER} {_BODY})",
    rf"who+a+ there (?:s|is) (?:a|the|some) {_PERSON}(?: \w+ you)?",
    rf"(?:(?:emergency|full) )?{_HALT}(?: (?:right )?(?:there|here|where you are))?",
    r"abort|cease|who+a+|woa+h|cancel|enough|e stop|estop|knock it off|cut it out",
    r"that s (?:(?:far|close|high|low|near) )?enough",
    r"hold(?: (?:on|up|it|(?:dead |very )?still|steady|fire|position|your position|that|everything))?",
    r"(?:be|stand) still|stand by|steady(?: (?:on|up))?",
    r"(?:pause|hang on|hang tight|wait(?: up)?)\b(?! for\b)",
    rf"(?:stay|remain)(?: {_STILL})?|keep {_STILL}",
    (
        rf"{_FORBIDS} (?:you )?(?:dare )?(?:move|moving|budge|twitch|go|stir|fly|(?:come|get)(?= any))"
        r"(?: (?:an inch|another inch|a muscle|at all|any (?:more|further|closer|nearer)))?|no (?:moving|flying)"
    ),
    rf"{DO_NOT} touch (?:that|it|anything)|leave (?:it|that)(?: alone)?",
    _NOBODY_MOVES,
)
_RELEASE = (
    r"let go(?: of (?:me|him|her|it|(?:my|his|her) \w+))?|let (?:me|him|her|it|them|that|this|(?:my|his|her) \w+) go",
    r"release(?: (?:it|me|him|her|that))?|drop it",
)
_AT_ONCE = re.compile(rf"\b(?:(?P<stop>{'|'.join(_STOP)})|(?P<release>{'|'.join(_RELEASE)}))\b")
_ASIDE = re.compile(
    r"\b(?:at (?:once|all)|whatever (?:you do|happens)|(?:right )?this (?:very )?(?:second|minute)|"
    r"(?:drone|robot|arm) (?:\d{1,2}|one|two|three|four)|"
    r"i (?:need|want|told|order|beg) you to|you (?:must|should|(?:had )?better|(?:need|have|ought) to))\b"
)
_HALTED = (
    rf"(?:{_HALT}(?: (?:it|that|there|everything|all|dead|{_MOTION}|where you are|(?:the |your )?(?:arm|drone|robot)))?"
    rf"|{_FORBIDS} (?:you )?move|hold (?:it|still|steady|everything|(?:your )?position)|steady|(?:stay|remain) put|"
    rf"(?:stand|keep|stay) (?:dead |stock |very |perfectly )?(?:still|steady)|(?:quit|cease) {_MOTION}|{_NOBODY_MOVES})"
)
_HALTS = re.compile(rf"\b{_HALTED}\b")
_WARN = r"(?:careful|watch out|look out|heads up|mind out)"
_WARNS = re.compile(rf"\b{_WARN}\b")
_CALL = (
    rf"(?:{_HALTED}|please|now|no|at once|immediately|dead|(?:right )?there|right now|robot|drone|arm|oi|hey|oh|omg|"
    rf"ouch|ow|love|dear|mate|dude|help|just|who+a+|woa+h|{_WARN})"
)
_CLOTHES = r"(?:sleeves?|cuff|gloves?|scarf|tie|lanyard|necklace|shirt|coat|apron|skirt)"
_HARM = r"(?:hit|hurt|knock|break|crush|smash|spill|wake|squash|burn|crash|clip|kill|drop|scare|squeeze)"
_WILL = r"(?:ll|will|(?:re|are) (?:going to|gonna))"
_ACT = (
    r"(?:land|take|pick|grab|bring|give|fetch|place|push|turn|go|fly|come|follow|move|drop|put|let|release|use|keep|hold|"
    r"lift|raise|open|close|wait|hover|say|tell|show|find|look|climb|rise|descend|duck|dodge|reverse)"
)
_ASKS = re.compile(
    r"\b(?:then|want(?:s|ed)?|wish|needs?(?! to\b)|prefer|supposed|meant|mean|please|goes|instead(?! of)|"
    r"you (?:should|must)|from (?:your|the) (?:left|right)|"
    r"(?:is|are|has|have|am|s|m|re|ve) to|"
    rf"you {_WILL}|(?:and|so|but) {_ACT}|"
    rf"(?:a )?(?:bit|little) (?:higher|lower|left|right|up|down|back|forwards?|backwards?)|{_HALT})\b"
)
"""What asks for something, wherever it is said: nothing that only tells what happens."""
_MAY_ASK = re.compile(
    rf"{_ASKS.pattern}|\b(?:and|but|until|till|unless|if|when|once|after|before|while|where|soon|which|who|"
    rf"from|(?:re|are) at the|{_ACT}|looking|picture|photo|higher|lower|home|\d+|left|"
    r"right(?! (?:in|into|under|underneath|beneath|by|there|across|over|above|next|at|near|on|behind|below|now)))\b"
)
"""What may ask for something where no halt stands alone."""
_FORBIDDEN = rf"{_FORBIDS} (?:(?:you|even|ever) )*(?!(?:move|stop|halt|wait|pause|freeze)\b)(?:let go|[a-z]+)"
_NO_ORDER = re.compile(rf"{_FORBIDDEN}|you {_WILL} {_HARM}\b|(?:s|ve|has|have) put\b")
_STATE = (
    r"(?:\w{3,}in[g]?|about|bout|gonna|got|gone|in|on|at|by|under|underneath|beneath|over|above|near|right|too|so|all|not|"
    r"out|off|loose|caught|stuck|fallen|broken|burnt|wrong|moved|put|dropped|spilt|spilled|crawled|leaned|wrapped)"
)
_OWN = r"(?:my|me|his|her|our|their|the|a|an|some|somebody|someone|one|your|\w+ s)"
_REPORT = (
    r"there ?(?:s|is|are|comes) \w.*|"
    rf"(?:you|they|he|she|it|i|we) ?(?:re|are|ve|have|has|s|is|m|am|ll|will) \w.*|"
    r"(?:you|it|that|this) (?:\w+ly )?(?:hurts?|burns?|caught|hold|holds|has)\b.*|(?:he|she|they|i) \w.*|that s .*|"
    rf"{_OWN} (?:(?!that\b)\w+ ){{0,5}}?(?:is|are|has|have) \w.*|(?:(?!that\b)\w+ ){{1,4}}?s {_STATE}\b.*|"
    r"(?:(?!that\b)\w+ ){2,5}?(?:burns|cracks|falls|reaches|leans|smokes|spilled|dropped|fell|ran)\b.*|"
    rf"(?:my|his|her) (?:{_BODY}|{_CLOTHES}|foot|leg|head|face|eyes?)|a {_PERSON}|{_FORBIDDEN}\b.*"
)
"""What happens, and orders nothing."""
_EXCLAIMED = (
    rf"(?:(?:a|an|the|my|some|little) )*(?:{_PERSON}|fire|smoke|blood|gas|wires?|wall|window|emergency|accident)\b.*"
)
"""What is a report as a clause of its own: "a kid", but not "stop a kid from running"."""
_REPORTED = re.compile(
    rf"(?P<order>(?:{_CALL} ){{0,12}})"
    r"(?!(?:at|by|near|in|on|under|over|above|behind|beside|for|to|with|what|as|\w+ing)\b)"
    rf"(?P<report>{_REPORT})|(?P<exclaimed>{_EXCLAIMED})"
)
_TELLS = re.compile(
    rf"(?:{_CALL} )*(?:there|you|they|he|she|it|i|we|my|his|her|our|their|the|an?|some|something|somebody|someone|"
    rf"your|that|this|both|(?!wh|how)\w+ (?:is|are|s|fell)|(?:{_HARM}|hurt)ing|too|{_EXCLAIMED}|"
    rf"(?:so |and |but )?(?:whatever you do )?{_FORBIDDEN})\b.*"
)
"""How a clause may begin that orders nothing, behind a halt that stands alone: "stop, he fell down"."""
_CAUGHT = r"(?:in|inside|into|between|caught|stuck|trapped|pinched|jammed)"
_GRIPPER = r"(?:(?:your|ur|the) (?:grip|gripper|grabber|claws?|jaws?|fingers?|hand)|gripper|claw|jaws)"
_HOW = (
    r"(?:so|too|very|really|again|still|there|hard|tight|for real|(?!loose|gent|soft|light|weak|nice|safe)\w+ly|"
    rf"(?:against|with|between|instead of) (?:the|your|a) \w+|"
    rf"{_CAUGHT}(?: (?:there|their|{_GRIPPER}))?|and {_OWNER} (?:{_BODY}|{_CLOTHES}))"
)
_GRIPPED = re.compile(
    rf"\b(?:(?:you|it|{_GRIPPER}) ?(?:(?:re|r|are|is|ve|have|s|has) )?(?:just )?"
    r"(?:got|holds?|holding|crush\w*|squeez\w*|pinch\w*|grip\w*|grabbed|caught|trapped)|squeezing|crushing|pinching) "
    rf"(?:on to |hold of )?(?:{_OWNER}|\w+ s) {_BODY}(?: {_HOW})*(?= (?:{_CALL}|and|it|you|so|man)\b|$)"
    rf"|(?:(?:you (?:ve |have )?(?:got )?)?{_OWNER}|^(?:there s )?(?:a )?|(?:^|(?<=stop ))\w+ s) ?{_BODY} "
    rf"(?:(?:is|are|s|right|got|still|now|\w+ly|{_CAUGHT}) ){{0,4}}?{_CAUGHT} {_GRIPPER}\b(?: {_HOW}\b)*"
)
"""What only a gripper that opens can end: "stop, you've got my hand"."""
_KEEP = re.compile(
    r"\b(?:\w+n t|dont|not|never|keep\w*|hold\w*|held|support\w*|stay|leave|no (?:open|let|release|drop))\b"
)
_FREE = re.compile(r"\b(?:open(?: (?:up|it|(?:the|your) gripper))?|let (?:me|us|him|her) out)\b")
_PAIN = re.compile(r"\b(?:hurts?|hurting|crushing|squeezing|breaking|burns?|burning|bleeding|stuck|trapped|caught)\b")
_THE_ROBOT = (
    r"(?:you|it|there|(?:(?:your|the|a|its|that|this) )?(?:(?:left|right|front|rear|back|spinning) )?"
    r"(?:propell[eo]rs?|props?|rotors?|blades?|drone|robot|arm(?! of)|gripper|grabber|claws?|jaws?|joints?|gears?|"
    r"motors?|machine|thing))"
)
_HELD = (
    r"(?:caught|stuck|tangled|entangled|trapped|jammed|pinched|wedged|wrapped|wound|snagged|sucked|pulled|dragged|"
    r"clamped|squashed|crushed)(?: up)?"
)
_BLADES = (
    r"(?:(?:your|the) (?:\w+ )?(?:propell[eo]rs?|props?|rotors?|blades?|gears?)|your (?:fans?|joints?)|the \w+ of you|"
    r"you)"
)
_WORN = (
    rf"(?:{_BODY}|{_CLOTHES}|sweater|jumper|jacket|dress|hood|shawl|ponytail|braids?|bracelet|shoelaces?|foot|toes?|"
    r"leg|tail|paws?)"
)
_IS_CAUGHT = re.compile(
    rf"\b(?:{_OWNER} )?{_WORN} (?:(?:is|are|s|has|have|got|gets?|getting|being|just|now|still|all|it|\w+ly) )*"
    rf"(?:{_HELD}(?P<where> (?:in|into|inside|by|between|under|around|on|with|to) {_THE_ROBOT})?|"
    rf"(?:is|are|s|got|goes|going|gone|went|flew|blown|flying|it)(?P<into> (?:in|into|between) {_BLADES}))"
    rf"(?= (?:{_HOW}|{_CALL})\b|$)"
)
_CATCHES = re.compile(
    rf"\b{_THE_ROBOT} (?:(?:is|are|s|re|has|have|ve|just|now|still|\w+ly) )*(?:cutting|cut|pulling|eating|chewing|"
    rf"caught|crushing|squeezing|pinching|trapped|jammed|tearing|slicing) (?:(?:up|in|on) )?{_OWNER} {_WORN}\b"
    rf"(?! \w+ing\b)|^(?:{_CALL} )*(?:it|you|(?:the|your|this|that) (?:drone|robot|arm|gripper|motor|battery)) "
    r"?(?:is|are|s|re|has|caught) (?:(?:now|just|caught) )*(?:on )?fire$"
)
_SUPPOSES = re.compile(
    r"\b(?:if|when|whenever|what|whoever|suppose|imagine|pretend|tell|read|check|did|does|was|were|how|why|unless)\b"
)
"""What only speaks of it: "if my hand is stuck, what do you do?"."""
_LETS_GO = re.compile(rf"\b(?:{'|'.join(_RELEASE)}|open(?: up| your \w+| the gripper)?)\b")
_LETS_GO_OF_SOMEBODY = re.compile(
    r"\b(?:let (?:go\b(?! of (?!me|us|my|him|his|her))|(?:me|us|him|her) (?:go|out)"
    r"(?! (?:first|ahead|past|by|through|home|to|in|on|the)\b))|release (?:me|us|him|her))\b"
)
_IN_THERE = re.compile(
    rf"\b{_OWNER} {_BODY} (?:(?:is|s|are|right|got|still|\w+ly) )*(?:in|inside|caught|stuck|trapped|pinched)\b"
    rf"|^{_OWNER} {_BODY}$"
)
_MAX_CHARACTERS = 4096
_TO_BE_SAID = re.compile(
    r"\W*(?:(?:please|now|ok|okay|hey|robot|drone|just|then|and|can|could|will|would|you)\W+)*"
    r"say(?:\s+|\s*:\s*|[\s,:]*[\"'\u2018\u201c\u201e\u00ab]\s*)\w"
)
"""What begins like this names words to say: "say nobody move" is to be said, "say, stop" is an order."""


def is_stop(instruction: str) -> bool:
    """Returns whether an instruction (untrusted) orders a robot to stop, and at most to let go besides."""
    return "stop" in _orders(instruction)


def begins_with_stop(instruction: str) -> bool:
    """Returns whether an instruction orders to stop before all else, whatever it goes on with: "Stop! Go back!"."""
    return not _is_to_be_said(instruction) and _halts(next(filter(_says_more, _clauses(instruction)), ""))


def plan_of_cry(model: RobotModel, instruction: str) -> str:
    """Returns what a robot does at once that would refuse any other instruction; empty if nobody cries at it to stop.

    Args:
        model: Of the robot: its stop skill, and what opens its gripper.
        instruction: Untrusted.
    """
    if _is_to_be_said(instruction):
        return ""
    clauses = _clauses(instruction)
    text = " ".join(clauses)
    is_held = any(map(_GRIPPED.search, clauses)) and not _SUPPOSES.search(text)
    must_open = bool(_LETS_GO.search(text)) and any(map(_IN_THERE.search, clauses))
    halts = "stop" in _alone(next(filter(_says_more, clauses), ""))
    if not (is_held or must_open or halts or is_cry(clauses) or _reports_caught(clauses)):
        return ""
    is_held = is_held and not _MAY_ASK.search(_LETS_GO.sub(" ", _GRIPPED.sub(" ", text)))
    lets_go = (is_held or must_open or _LETS_GO_OF_SOMEBODY.search(text)) and not _KEEP.search(text)
    return _plan_of(model, {"stop", "release"} if lets_go else {"stop"})


def immediate_plan(model: RobotModel, instruction: str) -> str:
    """Returns the plan of an order that acts at once; empty if the instruction is no such order.

    Args:
        model: Of the robot: its stop skill, and what opens its gripper.
        instruction: Untrusted.
    """
    return _plan_of(model, _orders(instruction))


def _plan_of(model: RobotModel, orders: set[str]) -> str:
    """Returns the plan of orders; empty if there are none, or the robot can only let go and has no gripper."""
    if "release" in orders:
        opens = (
            name for name, skill in model.skills.items() if isinstance(skill.effect, Gripper) and skill.effect.is_open
        )
        if opening := next(opens, ""):
            return f"{opening}();"
    return f"{model.stop_skill}();" if "stop" in orders else ""


def _orders(instruction: str) -> set[str]:
    """Returns which orders an instruction consists of, ``stop`` and ``release``; none if it says anything else."""
    if _is_to_be_said(instruction):
        return set()
    clauses = _clauses(instruction)
    freed = [_GRIPPED.sub(" ", clause) for clause in clauses]
    is_gripped = freed != clauses
    if is_gripped and not _KEEP.search(" ".join(freed)):
        rest = [_without_report(clause) if _PAIN.search(clause) else _FREE.sub(" ", clause) for clause in freed]
        if any(map(_HALTS.search, rest)) and _alone(*rest):
            return {"stop", "release"}
    if orders := _alone(*clauses):
        return orders
    told = list(map(_without_report, clauses))
    if any(map(_HALTS.search, told)) and (orders := _alone(*told)):
        return {"stop"} if is_gripped else orders
    if _reports_caught(clauses):
        text = " ".join(freed)
        opens = is_gripped and not _KEEP.search(text) and not _MAY_ASK.search(_LETS_GO.sub(" ", text))
        return {"stop", "release"} if opens else {"stop"}
    begun = next(filter(_says_more, freed), "")
    halts = _halts(begun) and (is_gripped or all(map(_orders_nothing_else, clauses)))
    return {"stop"} if halts else set()


def _reports_caught(clauses: list[str]) -> bool:
    """Returns whether somebody tells that a robot has caught a part of a body or clothes, and orders nothing else.

    What is ordered besides is passed over where they are caught in the robot for sure.
    """
    if _SUPPOSES.search(" ".join(clauses)):
        return False
    found = [_IS_CAUGHT.search(clause) or _CATCHES.search(clause) for clause in clauses]
    if any(match and (match.re is _CATCHES or match.lastgroup) for match in found):
        return True
    others = [_without_report(clause) for clause, match in zip(clauses, found, strict=True) if not match]
    goes_on = any(match and match.end() < len(clause) for clause, match in zip(clauses, found, strict=True))
    return any(found) and not goes_on and (not any(map(_says_more, others)) or bool(_alone(*others)))


def _is_to_be_said(instruction: str) -> bool:
    """Returns whether an instruction names words to say; one that is too long to be an order counts as such."""
    return len(instruction) > _MAX_CHARACTERS or _TO_BE_SAID.match(instruction.lower()) is not None


def _clauses(instruction: str) -> list[str]:
    plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", instruction)).lower().replace("'", " ")
    return [" ".join(re.findall(r"[a-z]+|\d+", clause)) for clause in re.split(r"[.,;:!?\n\u2014]", plain)]


def _says_more(clause: str) -> bool:
    """Returns whether a clause says more than "hey" or "careful"."""
    return not _FILLERS.issuperset(_WARNS.sub(" ", clause).split())


def _halts(clause: str) -> bool:
    """Returns whether a clause is a halt that stands alone, at most with a report of what happens."""
    order = _without_report(_WARNS.sub(" ", clause).strip())
    return bool(_HALTS.search(order) and _alone(order))


def _alone(*clauses: str) -> set[str]:
    """Returns the orders of which clauses consist; none if they say anything else."""
    text = " ".join(_ASIDE.sub(" ", " ".join(clauses)).split())
    if not _FILLERS.issuperset(_AT_ONCE.sub(" ", text).split()):
        return set()
    return {kind for match in _AT_ONCE.finditer(text) if (kind := match.lastgroup)}


def _orders_nothing_else(clause: str) -> bool:
    """Returns whether a clause behind a halt that stands alone asks for nothing but, at most, to stop or to let go."""
    if _alone(clause) or not _says_more(clause):
        return True
    return bool(_TELLS.fullmatch(clause)) and not _ASKS.search(_NO_ORDER.sub(" ", clause))


def _without_report(clause: str) -> str:
    """Returns what a clause orders, without a report of what happens behind it."""
    found = _REPORTED.fullmatch(clause)
    if not found or _MAY_ASK.search(_NO_ORDER.sub(" ", found["report"] or found["exclaimed"])):
        return clause
    return found["order"] or ""
