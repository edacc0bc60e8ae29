# SPDX-License-Identifier: Apache-2.0
"""Requests to do harm, which no model is asked to plan: to hit something, to fly at somebody, to stab or grasp him.

A gate judges motions, and the flight to a thing is a motion like others; that it is meant as a blow stands in the words
of the request alone. Only plain orders are recognised: against others there are the gate, the driver's limits and the
distance that an approach keeps. Warnings ("it will hit you") and negations are no orders.

A drone may hit nothing. An arm may hit a button, so what counts there is who is hit: a person, an animal or a part of a
body. That it grasps nobody and puts no knife on somebody is also held against each call of a plan.
"""

import re
from collections.abc import Sequence

from llm_planner.planning.safety.living import (
    ANIMALS,
    BODY_PARTS,
    HAZARDS,
    LIKENESSES,
    PEOPLE,
    is_dangerous,
    is_hazard,
    is_living,
)
from llm_planner.planning.untrusted import ascii_letters, plain_task
from llm_planner.robots.effect import Effect, Grasp, Place, Push
from llm_planner.robots.model import RobotKind, RobotModel

_ROOM = r"(?:kitchen|\w*room|hall(?:way)?|corridor|garden|yard|house|garage|shed|office|building|shop|workshop|barn)"
_BLOW = (
    r"(?:collide with|crash into|smash into|slam into|bump into|ram|strike(?! (?:that|a pose)\b)|"
    r"hit(?! (?:me with|record|play|pause|(?:the )?brakes?|the lights|(?:the|a|that|your) (?:\w+ )?button)\b)|"
    rf"run into(?! (?:the|my|your|our) (?:\w+ )?{_ROOM}\b)|run over(?! (?:to|there|here|and)\b)|"
    r"make contact with|attack|injure|hurt)\b(?! (?:nobody|no one|nothing)\b(?! (?:but|except)\b))"
)
_PEOPLE = r"(?:crowds?|people|audience|spectators|bystanders|pedestrians)"
_NEARER = r"(?:to|towards?|near(?: to)?)"
_WAY = r"(?:at|into|through|over|above|across|among)"
_TRAVEL = r"(?:fly|flying|go|run|proceed|head|move|navigate|guide|hover|travel|dive|operate|descend)"
_SOMEBODY = (
    r"(?:him|her|them|me|us|(?:the|a|that|this|my|his|her) (?:man|woman|person|boy|girl|child|kid|baby|dog|cat))"
    r"(?! (?:height|level|side|eye))"
)
_CHILDREN = r"(?:the |those |these |some |my )?(?:kids?|child|children|toddlers?|baby|babies)"
_SOLID = (
    r"(?:the |a |that )(?:\w+ )?(?:window|wall|mirror|windscreen|ceiling|fire|flames?|bonfire|campfire|fan|turbine|pool"
    r"|pond|water|aquarium|traffic)"
)
_NO_GROUND = (
    r"(?:the |a |that |this )(?:\w+ )?(?:fire|flames?|bonfire|campfire|candles?|stove|hob|grill|barbecue|pool|pond|lake"
    r"|river|water|bathtub|aquarium|fountain|toilet)"
)
_HEAD = r"(?:his|her|my|their|the (?:man|woman|boy|girl|child|kid|baby)s) (?:head|face|neck)"
_FREE = r"(?:(?!\b(?:not|never|without|avoid|away|keep|keeping)\b)[^.,;!?])"
_ORDERED = (
    r"(?:^|[.;,!?]|\b(?:and|then|please|to|drone|now|just|go|(?:can|could|will|would) you|"
    r"before \w+ing|without \w+))\s*(?:(?:directly|carefully|safely|just|then)\s+)*"
)
_NEGATED = re.compile(
    r"\b(?:(?:not|never|dont)(?! hesitate\b)|avoid|unless|try not to|(?:will|would)(?! you\b)|gonna|going to|"
    r"about to|if|(?:before|without)(?= (?:(?:you|it|we|they|he|she|can|could|ever|even|trying|having|to) )*$))\b"
)
_HARMFUL = (
    re.compile(rf"{_ORDERED}(?P<order>{_BLOW})"),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})\b{_FREE}{{0,40}}?\b(?:{_NEARER} {_FREE}{{0,12}}?\b{_PEOPLE}\b"
        r"(?! (?:entrance|entry|door|exit|stairs|toilets?|lift|area|car ?park)\b)"
        rf"|{_WAY} (?:(?!\b{_NEARER} ){_FREE}){{0,12}}?\b{_PEOPLE}\b)(?! (?:while )?keep)"
    ),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})(?: (?:straight|right|directly|fast|low))* "
        rf"(?:into {_SOLID}|through the (?:\w+ )?(?:fire|flames?|traffic)"
        rf"|(?:at|into) (?:{_SOMEBODY}|{_CHILDREN})|(?:over|above|through|across) {_CHILDREN})"
        rf"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|fast|at full)\b))"
    ),
    re.compile(rf"\b(?P<order>land(?:ing)?) (?:in|into|on) {_NO_GROUND}(?=\s*(?:$|[.,;!?]|(?:and|then|please|now)\b))"),
    re.compile(rf"\b(?P<order>land(?:ing)?) on (?:{_HEAD}|him|her(?=\s*(?:$|[.,;!?]|and\b)))\b"),
    re.compile(
        r"\b(?P<order>drop|dropping|fall|come down|plunge|plummet|swoop|crash|descend|dive|sit|sink|lower yourself)"
        rf"(?: down)?(?: right| straight| hard)? on(?:to| top of)? "
        rf"(?:{_HEAD}|{_SOMEBODY}|{_CHILDREN}|(?:the |those )?{_PEOPLE})"
        r"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|fast|at|with|from|in|who)\b))"
    ),
)


def _any_of(words: frozenset[str], *irregular: str) -> str:
    plurals = (rf"{word[:-1]}(?:y|ies)" if word.endswith("y") else rf"{word}(?:e?s)?" for word in sorted(words))
    return f"(?:{'|'.join((*irregular, *plurals))})"


_WHO = _any_of(PEOPLE | ANIMALS, "men", "women", "children")
_PART = _any_of(BODY_PARTS, "feet")
_NOT_ALIVE = rf"(?!{_any_of(LIKENESSES)}\b)"
_ENDS = (
    r"(?=\s*(?:$|[.,;!?]|(?:with|in|into|on|onto|at|until|till|and|or|then|to|towards?|now|hard|harder|please|from|so|by|"
    r"as|while|who|that|over|off|again|under|inside|against|between|through|firmly|tight|tightly|gently|really|very|for|"
    r"out|away|up|down|before|after|when|if|because|back|quickly|slowly|carefully|around|shut|"
    r"apart)\b))"
)
"""What follows where a name ends: "squeeze the baby's bottle" is about a bottle."""
_ITS = (
    r"(?:my|his|her|our|their|(?:(?:the|a|an|this|that|some|my|his|her|our|their) )?(?:\w+ )?"
    rf"(?:{_NOT_ALIVE}(?!(?:chair|table|clock|watch|robot|desk|sofa|teddy|bear|tripod)\b)(?:\w+'s|\w+s')|{_WHO}s))"
)
_SOMEBODY_HERE = (
    rf"(?:(?:the|a|an|this|that|these|those|my|his|her|our|their|some|any|every|each|one) )?"
    rf"(?:{_NOT_ALIVE}(?!(?:on|in|at|with|to)\b)\w+ ){{0,2}}?{_NOT_ALIVE}{_WHO}"
)
_SIDE = r"(?:(?:left|right|other|bare|little|index|middle|own|whole) )*"
_WHOLE = rf"{_SOMEBODY_HERE}{_ENDS}"
_PART_OF_SOMEBODY = rf"(?:{_ITS} {_SIDE}{_PART}{_ENDS})"
_PART_HERE = (
    rf"(?:(?:the|a|that|this) {_SIDE}{_PART}{_ENDS}|"
    rf"{_ITS} {_SIDE}(?:{_PART}|neck|skull|skin|tongue|elbow|belly|chest){_ENDS})"
)
_ANYBODY = rf"(?:{_WHOLE}|{_PART_HERE})"
_US = rf"(?:(?:me|him|her|them|us|someone|somebody|everyone|everybody|people)\b{_ENDS})"
_ARM_ORDERED = (
    r"(?:^|[.;,!?]|\b(?:and|then|please|to|robot|arm|now|just|go|hey|ok|okay|lets|"
    r"(?:can|could|will|would|must|should) you))"
    r"\s*(?:(?:directly|carefully|quickly|slowly|gently|just|then|try to) )*"
)
_HURT = (
    r"(?:hit|stab|crush|poke|pinch|smash|squash|strike|slap|punch|whack|bash|burn|prick|hurt|injure|attack|choke|"
    r"strangle|kill|smack|impale|pierce|drown|scald|smother|suffocate|jab|spear|slash|clobber|thump|beat up|kick|"
    r"flatten|(?:cut|slice|saw|chop)(?: off)?|twist|break|snap|bend|poison|electrocute)"
)
_TAKE = (
    r"(?:pick up|pick|grab|grasp|grip|lift up|lift|seize|clamp|push|shove|drag|pull|knock|squeeze|"
    r"(?:throw|toss)(?= the| a| my))"
)
_PUT = r"(?:put|place|drop|shove|stuff|insert|stick|dip|dunk|set|lower|throw|toss|push|press|hold|jam)"
_KNIFE = (
    r"(?:\w+ )?(?:kni(?:fe|ves)|scissors|scalpel|razor(?: blade)?|blade|needle|syringe|saw|axe|dagger|shears|skewer|"
    r"soldering iron)|(?:very )?(?:red )?(?:hot|boiling|burning|flaming|lit|scalding)(?! (?:dog|sauce)) \w+(?: \w+)?"
)
_THE = r"(?:(?:the|an?|that|this|those|these|some|my|your|his|her|our|all) )?"
_BRING = (
    r"(?:put|place|drop|throw|toss|chuck|push|stick|shove|set|pour|tip|spray|pop|lay|move|bring|add|dip|dunk|submerge|mix"
    r"|stir)"
)
_TO = r"(?: (?:in|into|inside|on|onto|over|to|with|near|under)){1,2}"


def _brings(things: frozenset[str], places: frozenset[str]) -> re.Pattern[str]:
    what = rf"{_THE}(?:{_NOT_ALIVE}\w+ )?{_any_of(things)}(?: (?:can|canister|bottle|pack|tank|cylinder|container))?"
    return re.compile(
        rf"\b(?P<order>(?:{_BRING} {what}|(?:pick(?: up)?|take|grab|get|lift) {what}"
        rf"(?: ,|,)?(?: and| then){{0,2}} {_BRING} (?:it|them|that))"
        rf"{_TO} {_THE}(?:{_NOT_ALIVE}\w+ )?{_any_of(places)}){_ENDS}"
    )


_ARMS_HARMFUL = (
    *(_brings(*hazard) for hazard in HAZARDS),
    re.compile(rf"{_ARM_ORDERED}(?P<order>{_HURT} (?:{_ANYBODY}|{_US}))"),
    re.compile(rf"{_ARM_ORDERED}(?P<order>{_TAKE} (?:{_WHOLE}|{_PART_OF_SOMEBODY})|squeeze {_US})"),
    re.compile(
        rf"{_ARM_ORDERED}(?P<order>(?:hold(?! your)|carry|move) {_WHOLE}|"
        r"(?:grab|pull|drag|lift) (?:him|her|me|them) by)\b"
    ),
    re.compile(
        r"\b(?P<order>(?:drop|spill|swing|hurl|smash|slam|bang|throw) (?:\w+ ){1,4}(?:on|onto|at|against) "
        rf"(?:{_WHOLE}|{_PART_OF_SOMEBODY}|{_US})|(?:stick|jab|thrust|ram|plunge) (?:\w+ ){{1,4}}(?:in|into|up) "
        rf"(?:{_WHOLE}|{_PART_OF_SOMEBODY})|(?:press|stamp|lean|step)(?: down)?(?: hard)? on (?:{_ANYBODY}|{_US})|"
        r"set (?:fire to|(?:\w+ ){1,4}on fire)\b)"
    ),
    re.compile(
        rf"{_ARM_ORDERED}(?P<order>{_PUT} (?:{_WHOLE}|{_PART_OF_SOMEBODY}) "
        r"(?:in|into|inside|on|onto|under|off|through) )"
    ),
    re.compile(
        r"\b(?P<order>(?:close|shut|clamp|tighten)(?: down)?(?: (?:the|your))?(?: (?:gripper|hand|claws?|jaws?|grip))? "
        rf"(?:on|around|over|onto) (?:{_ANYBODY}|{_US}))"
    ),
    re.compile(
        r"\b(?P<order>(?:throw|toss|fling|hurl|chuck|lob|sling|launch|shoot|pitch) (?:\w+ ){1,5}at "
        rf"(?:{_ANYBODY}|{_US}))"
    ),
    re.compile(
        rf"\b(?P<order>(?:put|pull|place|slip|wrap|tie|press|hold) (?:\w+ ){{1,3}}?(?:bag|rope|cord|string|pillow|"
        rf"cable|cushion|tape|belt|wire|plastic)(?: \w+)? (?:over|on|onto|around|round|against) {_ITS} "
        r"(?:head|face|neck|mouth|nose|throat))\b"
    ),
    re.compile(
        r"\b(?P<order>(?:put|place|push|give|hand|pass|move|drop|slide|point|press|shove|pour|tip|bring|lay|swing|aim|"
        r"drive) "
        rf"(?:(?:the|a|an|that|this|those|my|some) )?(?:{_KNIFE}) (?:(?:in|on|onto|towards?|at|into|to|against|over) "
        rf"(?:top of )?(?:{_WHOLE}|{_PART_OF_SOMEBODY})|(?:on|onto|towards?|at|against|over) {_US}))"
    ),
    re.compile(
        rf"\b(?P<order>(?:give|hand|pass|bring) {_SOMEBODY_HERE} "
        rf"(?:the|a|an|that|those|some) (?:{_KNIFE}))\b"
    ),
    re.compile(
        r"\b(?P<order>(?:put|place|push|hold|drop|move|bring|throw|set|lay) (?:(?:the|a|that|this|some) )?"
        r"(?:(?:lit|burning|\w+) )?(?:lighter|match(?:es)?|candle|blow ?torch|flame|sparkler) "
        r"(?:on|onto|in|into|near|under|to|towards?|against|at|next to|beside) (?:the |a |that )?(?:\w+ )?"
        r"(?:gas|gasoline|petrol|fuel|propane|butane|kerosene|diesel|paraffin|acetone|gunpowder|fireworks?|dynamite)\b"
        r"(?! (?:stove|cooker|burner|ring|lamp|station|bill|receipt)))"
    ),
)


def harm_of(instruction: str, model: RobotModel) -> str:
    """Returns which words of a request order a robot to do harm; empty if none do."""
    is_drone = model.kind is RobotKind.DRONE
    text = ascii_letters(plain_task(instruction)).lower().replace("n't", "nt")
    text = text.replace("'", "") if is_drone else text
    for pattern in _HARMFUL if is_drone else _ARMS_HARMFUL:
        for match in pattern.finditer(text):
            clause = re.split(r"[.;!?,]", text[: match.start("order")])[-1]
            if not _NEGATED.search(clause):
                return match.group().strip(" ,.;!?")
    return ""


def harm_of_call(effect: Effect, names: Sequence[str]) -> str:
    """Returns which harm a call would do with an arm; empty if none.

    Args:
        effect: Of its skill.
        names: Its objects and places, in order.
    """
    match effect, names:
        case Grasp() | Push() | Place(), [name, *_] if is_living(name):
            return f"grasp, push or place {name!r}"
        case Push() | Place(), [name, target, *_] if is_hazard(name, target) or (
            is_dangerous(name) and is_living(target)
        ):
            return f"bring {name!r} to {target!r}"
        case _:
            return ""
