# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once, without a model: stop, hold still, let go.

Only a sentence that is such an order as a whole counts, at most with reports of what happens ("stop, you're hurting
me", "the glass is tipping, halt"). What goes on ("stop at the door", "don't move the cup") is a task.
"""

import re
import unicodedata

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
        "son friend pls u r youre yourself dead help alright everybody",
    )
)
_STILL = (
    r"(?:right )?"
    r"(?:put|(?:very |perfectly )?still|there|here|where you are|in (?:place|position)|your position|quiet|motionless)"
)
_MOTION = r"(?:moving|flying|turning|spinning|rotating|going|drifting|climbing|descending)"
_HALT = r"(?:sto+p+|halt|fre+ze)"
_PERSON = (
    r"(?:kid(?:die)?s?|child(?:ren)?|baby|babies|toddlers?|boys?|girls?|man|men|woman|women|person|people|patients?|nurse|"
    r"somebody|someone|dog|cat|puppy|kitten)"
)
_BODY = r"(?:hands?|fingers?|fingertips?|thumbs?|hair|beard|arms?|wrists?|skin|ears?|nose)"
_OWNER = (
    rf"(?:(?:my|me|his|her|our|their|(?:(?:a|the|that|this) )?{_PERSON} s)(?: (?:left|right|other|little|whole|own))?)"
)
_STOP = (
    rf"{_HALT}(?: there)? (?:for )?a (?:sec|second|moment)",
    rf"(?:sto+p+|quit|cease) (?:it|that|everything|{_MOTION})",
    r"sto+p+ (?:(?:the|your|all) )*(?:motors|propellers|props|rotors)",
    rf"(?:sto+p+|quit) (?:hurting|squeezing|crushing|pinching|pulling|pushing|dragging) (?:me|us|him|{_OWNER} {_BODY})",
    rf"who+a+ there (?:s|is) (?:a|the|some) {_PERSON}(?: \w+ you)?",
    r"(?:(?:emergency|full) )?sto+p+(?: (?:right )?(?:there|here|where you are))?",
    r"halt|fre+ze|abort|cease|who+a+|woa+h|cancel|enough|e stop|estop|knock it off|cut it out|that s (?:far )?enough",
    r"hold(?: (?:on|up|it|still|fire|position|your position|that|everything))?|stand (?:still|by)",
    r"(?:pause|hang on|hang tight|wait(?: up)?)\b(?! for\b)",
    rf"(?:stay|remain)(?: {_STILL})?|keep {_STILL}",
    (
        r"(?:do not|don t|dont|never) (?:you )?(?:dare )?(?:move|moving|budge|go|stir|fly)"
        r"(?: (?:an inch|another inch|a muscle|at all|any (?:more|further)))?|no (?:moving|flying)"
    ),
    r"(?:do not|don t|dont) touch (?:that|it|anything)|leave (?:it|that)(?: alone)?|(?:nobody|no one|nothing) moves?",
    r"not (?:a|an|one|another) (?:muscle|millimetre|millimeter|step|centimetre|inch|move)(?: further)?",
)
_RELEASE = (
    r"let go(?: of (?:me|him|her|it|(?:my|his|her) \w+))?|let (?:me|him|her|it|them|that|this|(?:my|his|her) \w+) go",
    r"release(?: (?:it|me|him|her|that))?|drop it",
)
_ORDER = re.compile(rf"\b(?:(?P<stop>{'|'.join(_STOP)})|(?P<release>{'|'.join(_RELEASE)}))\b")
_ASIDE = re.compile(
    r"\b(?:at (?:once|all)|(?:right )?this (?:very )?(?:second|minute)|"
    r"(?:drone|robot|arm) (?:\d{1,2}|one|two|three|four)|"
    r"i (?:need|want|told|order|beg) you to|you (?:must|should|(?:had )?better|(?:need|have|ought) to))\b"
)
_FORBIDS = r"(?:do not|don t|dont|never)"
_HALTED = (
    rf"(?:{_HALT}(?: (?:it|that|there|everything|all|dead|{_MOTION}|where you are|(?:the |your )?(?:arm|drone|robot)))?"
    rf"|{_FORBIDS} (?:you )?move|hold (?:it|still|everything)|(?:stand|keep) still)"
)
_HALTS = re.compile(rf"\b{_HALTED}\b")
_CALL = (
    rf"(?:{_HALTED}|please|now|no|at once|immediately|dead|(?:right )?there|right now|robot|drone|arm|oi|hey|oh|omg|"
    r"ouch|ow|love|dear|mate|dude|help|just|who+a+|woa+h|watch out|look out|careful)"
)
_CLOTHES = r"(?:sleeves?|cuff|gloves?|scarf|tie|lanyard|necklace|shirt|coat|apron|skirt)"
_HARM = r"(?:hit|hurt|knock|break|crush|smash|spill|wake|squash|burn|crash|clip|kill|scare|squeeze)"
_ORDERS = re.compile(
    r"\b(?:then|and|so|but|until|till|unless|if|when|once|after|before|while|instead|where|soon|which|who|from|"
    r"wants?|wish|needs?(?! to\b)|prefer|supposed|meant|mean|please|(?:is|are|has|have|am|s|m|re|ve) to|"
    rf"(?:re|are) at the|you (?:ll|will|(?:re|are) (?:going to|gonna)) (?!{_HARM})|{_HALT}|"
    r"land|take|pick|grab|bring|give|fetch|place|push|turn|go|fly|come|follow|move|drop|put|let|release|use|keep|hold|"
    r"lift|raise|open|close|wait|hover|say|tell|picture|photo|show|find|look|looking|climb|rise|descend|duck|dodge|"
    r"reverse|forwards?|backwards?|back|up|down|higher|lower|away|home|\d+|left|"
    r"right(?! (?:in|into|under|underneath|beneath|by|there|across|over|above|next|at|near|on|behind|below|now)))\b"
)
"""What may ask for something else than a halt."""
_FORBIDDEN = rf"{_FORBIDS} (?:(?:you|even|ever) )*(?!(?:move|stop|halt|wait|pause|freeze)\b)(?:let go|[a-z]+)"
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
_EXCLAIMED = rf"(?:(?:a|an|the|my|some|little) )*{_PERSON}\b.*"
"""What is a report as a clause of its own: "a kid", but not "stop a kid from running"."""
_REPORTED = re.compile(
    rf"(?P<order>(?:{_CALL} ){{0,12}})"
    r"(?!(?:at|by|near|in|on|under|over|above|behind|beside|for|to|with|what|as|\w+ing)\b)"
    rf"(?P<report>{_REPORT})|(?P<exclaimed>{_EXCLAIMED})"
)
_CAUGHT = r"(?:in|inside|into|between|caught|stuck|trapped|pinched|jammed)"
_GRIPPER = r"(?:grip|gripper|grabber|claws?|jaws?|fingers?|hand)"
_GRIPPED = re.compile(
    rf"\b(?:(?:you|it|(?:the|your) {_GRIPPER}) ?(?:(?:re|r|are|is|ve|have|s|has) )?(?:just )?"
    r"(?:got|holds?|holding|crush\w*|squeez\w*|pinch\w*|grip\w*|grabbed|caught|trapped)|squeezing|crushing|pinching) "
    rf"(?:on to |hold of )?(?:{_OWNER}|\w+ s) {_BODY}(?= (?:{_CAUGHT}|there|and|it|you|please|now|stop|halt)\b|$)"
    rf"|(?:{_OWNER}|(?:^|(?<=stop ))\w+ s) {_BODY} (?:(?:is|are|s|right|{_CAUGHT}) ){{0,3}}?{_CAUGHT} "
    rf"(?:your|ur|the) {_GRIPPER}\b"
)
"""What only a gripper that opens can end: "stop, you've got my hand"."""
_KEEP = re.compile(r"\b(?:(?:don|isn|haven|hasn|mustn|shouldn) t|dont|not|never|keep\w*|hold\w*|held|support\w*)\b")
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
    if len(instruction) > _MAX_CHARACTERS or _TO_BE_SAID.match(instruction.lower()):
        return set()
    plain = unicodedata.normalize("NFKD", instruction).lower().replace("'", " ")
    clauses = [" ".join(re.findall(r"[a-z]+|\d+", clause)) for clause in re.split(r"[.,;:!?\n\u2014]", plain)]
    told = list(map(_without_report, clauses))
    if is_halt := any(map(_HALTS.search, told)):
        grips = [_GRIPPED.sub(" ", clause) for clause in clauses]
        if grips != clauses:
            return {"stop"} if _KEEP.search(" ".join(grips)) else {"stop", "release"}
    said = " ".join(told if is_halt else clauses)
    text = " ".join(_ASIDE.sub(" ", said).split())
    if any(word not in _FILLERS for word in _ORDER.sub(" ", text).split()):
        return set()
    return {kind for match in _ORDER.finditer(text) if (kind := match.lastgroup)}


def _without_report(clause: str) -> str:
    """Returns what a clause orders, without a report of what happens behind it."""
    found = _REPORTED.fullmatch(clause)
    if not found or _ORDERS.search(re.sub(_FORBIDDEN, " ", found["report"] or found["exclaimed"])):
        return clause
    return found["order"] or ""
