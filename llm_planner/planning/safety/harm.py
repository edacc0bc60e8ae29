# SPDX-License-Identifier: Apache-2.0
"""Requests to do harm, which no model is asked to plan: to hit something, to frighten or stab somebody, to set a trap.

A gate judges motions, and the flight to a thing is a motion like others; that it is meant as a blow stands in the words
of the request alone. Only plain orders are recognised: against others there are the gate, the driver's limits and the
distance that an approach keeps. Warnings ("it will hit you") and negations are no orders.

A drone may hit nothing. An arm may hit a button, so what counts there is who is hit: a person, an animal or a part of a
body. That it grasps nobody and puts no knife on somebody is also held against each call of a plan.
"""

import re
from collections.abc import Sequence
from itertools import product

from llm_planner.planning.safety.living import (
    ANIMALS,
    BABIES,
    BODY_PARTS,
    FOODS,
    FUELS,
    HAZARDS,
    IGNITERS,
    LIKENESSES,
    PEOPLE,
    SHARP,
    SMALL,
    YOUNG,
    is_dangerous,
    is_hazard,
    is_living,
    is_open_fire,
)
from llm_planner.planning.safety.poses import Hand
from llm_planner.planning.untrusted import ascii_letters, plain_task
from llm_planner.robots.effect import Approach, Effect, GoTo, Grasp, Gripper, MoveTool, Place, Push
from llm_planner.robots.model import RobotKind, RobotModel

_ROOM = r"(?:kitchen|\w*room|hall(?:way)?|corridor|garden|yard|house|garage|shed|office|building|shop|workshop|barn)"
_BLOW = (
    r"(?:collide with|crash into|smash into|slam into|bump into|ram|strike(?! (?:that|a pose)\b)|"
    r"hit(?! (?:me with|record|play|pause|(?:the )?brakes?|the lights|(?:the|a|that|your) (?:\w+ )?button)\b)|"
    rf"run into(?! (?:the|my|your|our) (?:\w+ )?{_ROOM}\b)|run over(?! (?:to|there|here|and)\b)|"
    r"make contact with|attack|injure|hurt)\b(?! (?:nobody|no one|nothing)\b(?! (?:but|except)\b))"
)
_CROWDS = r"(?:crowds?|people|audience|spectators|bystanders|pedestrians)"
_NEARER = r"(?:to|towards?|near(?: to)?)"
_WAY = r"(?:at|into|through|over|above|across|among)"
_TRAVEL = (
    r"(?:fly|flying|go|run|proceed|head|move|navigate|guide|hover|travel|dive|operate|descend|drive|driving|roll|steer)"
)
_CHILDREN = r"(?:the |those |these |some |my )?(?:kids?|child|children|toddlers?|baby|babies)"
_FLAMES = r"(?:fire|flames?|bonfire|campfire|blaze|inferno)"
_SOLID = (
    rf"(?:the |a |that )(?:\w+ )?(?:window|wall|mirror|windscreen|ceiling|{_FLAMES}|fan|turbine|pool"
    r"|pond|water|aquarium|traffic)"
)
_NO_GROUND = (
    rf"(?:the |a |that |this )(?:\w+ )?(?:{_FLAMES}|candles?|stove|hob|grill|barbecue|pool|pond|lake"
    r"|river|water|bathtub|aquarium|fountain|toilet)"
)
_HEAD = r"(?:his|her|my|their|the (?:man|woman|boy|girl|child|kid|baby)s) (?:head|face|neck)"
_FREE = r"(?:(?!\b(?:not|never|dont|without|avoid|away|keep|keeping)\b)[^.,;!?])"
_ORDERED = (
    r"(?:^|[.;,!?]|\b(?:and|then|please|to|drone|now|just|go|(?:can|could|will|would) you|"
    r"before \w+ing|without \w+))\s*(?:(?:directly|carefully|safely|just|then)\s+)*"
)
_NEGATED = re.compile(
    r"\b(?:(?:not|never|dont)(?! hesitate\b)|no need|nobody|no one|avoid|unless|try not to|gonna|going to|"
    r"(?:will|would)(?! you\b)|about to|if|"
    r"(?:before|without)(?= (?:(?:you|it|we|they|he|she|can|could|ever|even|trying|having|to) )*$))\b"
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
    r"apart|across|along|past|round|where|just|flat|steady|still)\b))"
)
"""What follows where a name ends: "squeeze the baby's bottle" is about a bottle."""
_ITS = (
    r"(?:my|his|her|our|their|(?:(?:the|a|an|this|that|some|my|his|her|our|their) )?(?:\w+ )?"
    rf"(?:{_NOT_ALIVE}(?!(?:chair|table|clock|watch|robot|desk|sofa|teddy|bear|tripod)\b)(?:\w+'s|\w+s')|{_WHO}s))"
)
_SOMEBODY_HERE = (
    rf"(?:(?:the|a|an|this|that|these|those|my|his|her|our|their|some|any|every|each|one) )?"
    rf"(?:{_NOT_ALIVE}(?!(?:on|in|at|with|to|and|before|while|when|so|until|for)\b)\w+ ){{0,2}}?{_NOT_ALIVE}{_WHO}"
)
_WHICH = r"(?:(?:left|right|other|bare|little|index|middle|own|whole) )*"
_WHOLE = rf"{_SOMEBODY_HERE}{_ENDS}"
_PART_OF_SOMEBODY = rf"(?:{_ITS} {_WHICH}(?:{_PART}|neck|skull|skin|tongue|elbow|belly|chest|lap){_ENDS})"
_US = rf"(?:(?:me|him|her|them|us|someone|somebody|everyone|everybody|people)\b{_ENDS})"
_ANYBODY = rf"(?:{_WHOLE}|(?:the|a|that|this) {_WHICH}{_PART}{_ENDS}|{_PART_OF_SOMEBODY}|{_US})"
"""Somebody, or a part of a body."""
_BODY = rf"(?:{_WHOLE}|{_PART_OF_SOMEBODY})"
"""The same without "me" and the like, and without "the hand", which may be one of a clock."""
_ARM_ORDERED = (
    r"(?:^|[.;,!?]|\b(?:and|then|please|to|robot|arm|now|just|go|hey|ok|okay|lets|"
    r"(?:can|could|will|would|must|should) you))"
    r"\s*(?:(?:directly|carefully|quickly|slowly|gently|just|then|try to) )*"
)
_HURT = (
    r"(?:hit|stab|crush|poke|pinch|smash|squash|strike|slap|punch|whack|bash|burn|prick|hurt|injure|attack|choke|"
    r"strangle|kill|smack|impale|pierce|drown|scald|smother|suffocate|jab|spear|slash|clobber|thump|beat up|kick|"
    r"flatten|tweak|yank|tug|prod|zap|(?:cut|slice|saw|chop)(?: off)?|twist|break|snap|bend|poison|electrocute)"
)
_TAKE = (
    r"(?:pick up|pick|grab|grasp|grip|lift up|lift|seize|clamp|push|shove|drag|pull|knock|squeeze|"
    r"(?:throw|toss)(?= the| a| my))"
)
_PUT = r"(?:put|place|drop|shove|stuff|insert|stick|dip|dunk|set|lower|throw|toss|push|press|hold|jam)"
_REAL = r"(?!(?:toy|play|pretend|foam|plastic|cardboard|cookie|pastry)\b)"
_KNIFE = (
    rf"{_REAL}(?:\w+ )?(?:{_any_of(SHARP, 'knives', 'razor blade', 'soldering iron', 'blow ?torch')})|"
    r"(?:very )?(?:red )?(?:hot|boiling|burning|flaming|lit|scalding)(?! (?:dog|sauce)) \w+(?: \w+)?"
)
_THE = r"(?:(?:the|an?|that|this|those|these|some|my|your|his|her|our|all) )?"
_FOUND = (
    rf"(?:{_SOMEBODY_HERE}|him|her|them|everyone|everybody|people|{_THE}(?:{_NOT_ALIVE}\w+ )?"
    r"(?:sheep|cattle|bulls?|cows?|swans?|hens?|chickens?|ducks?|geese|pigeons?|(?:sea)?gulls?|crows?|fox(?:es)?|deer)|"
    r"(?:old )?(?:mrs?|ms|miss)\.? \w+)"
)
_SOMEBODY = rf"(?:me|us|{_FOUND})(?! (?:height|level|side|eye))"
_LITTLE_ONE = re.compile(
    r"(\b(?:give|hand|let|feed|pass) (?:the|our|my) )(?:little|tiny) one"
    r"(?= (?:the|an?|his|her|that|those|some|have|play)\b)"
)
"""Who is given something, and no thing: "hand the little one the blade", and not "hand the little one to me"."""
_HEAD_HERE = rf"(?:{_FOUND}s?|my|his|their|our) (?:\w+ )?(?:{_PART}|hat)"
_RUSH = r"(?:whi[psz]+|zoom|zip|whoosh|swoop|skim|shave|dart|hurtle|brush|dive|buzz)(?:ing)?"
_HARMFUL = (
    re.compile(rf"{_ORDERED}(?P<order>{_BLOW})"),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})\b{_FREE}{{0,40}}?\b(?:{_NEARER} {_FREE}{{0,12}}?\b{_CROWDS}\b"
        r"(?! (?:(?:control )?(?:entrance|entry|door|exit|stairs|toilets?|lift|area|car ?park|counter|sensor|mover"
        r"|carrier|barrier|camera))\b)"
        rf"|{_WAY} (?:(?!\b{_NEARER} ){_FREE}){{0,12}}?\b{_CROWDS}\b)"
        r"(?! (?:(?:while )?keep|(?:sit|sleep|wash|eat|cook|rest|put|hang|know)\b))"
    ),
    re.compile(
        rf"\b(?P<order>{_TRAVEL})(?: (?:straight|right|directly|fast|low))* "
        rf"(?:into {_SOLID}|(?:through|over|above|across) the (?:\w+ )?{_FLAMES}|through the (?:\w+ )?traffic"
        rf"|(?:at|into) {_SOMEBODY}|(?:over|above|through|across) {_CHILDREN})"
        r"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|fast|at full|until|so|as)\b))"
    ),
    re.compile(rf"\b(?P<order>land(?:ing)?) on (?:{_HEAD}|him|her(?=\s*(?:$|[.,;!?]|and\b)))\b"),
    re.compile(
        r"\b(?P<order>drop|dropping|fall|come down|plunge|plummet|swoop|crash|descend|dive|sit|sink|lower yourself)"
        rf"(?: down)?(?: right| straight| hard)? on(?:to| top of)? "
        rf"(?:{_HEAD}|{_SOMEBODY}|(?:the |those )?{_CROWDS})"
        r"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|fast|at|with|from|in|who)\b))"
    ),
    re.compile(
        rf"{_ORDERED}(?:\w+ly )?(?P<order>(?:scare(?! up\b)|frighten|spook|startle|terrify|terrori[sz]e|harass|torment|"
        r"dive[ -]?bomb|intimidate|pester|tease|annoy|taunt) (?!(?:me|us)\b)\w+|(?:chase|buzz|stalk|bother|hound|"
        r"shoo)(?: after)? "
        rf"(?:{_HEAD_HERE}|{_FOUND}){_ENDS}|"
        rf"make (?!sure){_FOUND} (?:jump|scream|squeal|shriek|cry|panic|duck|flinch|bolt|scatter|run|yelp)\b)"
    ),
    re.compile(
        r"\b(?P<order>give (?:\w+\.? ){1,5}?(?:an?|the) (?:\w+ ){0,2}?(?:fright|scare|shock|heart attack)\b|"
        rf"(?:{_RUSH}(?: \w+)? (?:past|by|over|at|around|round|across|between|under|into) (?:{_HEAD_HERE}|{_FOUND})|"
        rf"(?:fly|go|head|dash|run)(?: \w+)? (?:past|into|at|between) {_HEAD_HERE}|"
        rf"(?:charge|lunge|rush|tear|fly)(?: \w+)? at {_FOUND}){_ENDS})"
    ),
    re.compile(
        rf"\b(?P<order>(?:land(?:ing)?|(?:set|touch|put) (?:it |yourself )?down)(?: (?:slap|smack|bang|right|straight|"
        rf"down|plumb|flat|\w+ly))* (?:in|into|on|onto) (?:{_NO_GROUND}|{_THE}(?:(?!(?:with|by|near|beside|behind|"
        r"next|in|on|of|and|where|under|before|after|during|for|to|at|until|while|that|which|from|once|so|as|has)\b)"
        rf"\w+ ){{0,3}}?(?:{_any_of(FOODS)}|pizza|pie|pudding|trifle|buffet)))"
        r"(?=\s*(?:$|[.,;!?]|(?:and|then|please|now|while|so|as|before|when|where|to|with|for|at)\b))"
    ),
)
_THEY = (
    rf"(?:he|she|they|whoever|anyone|anybody|everyone|everybody|people|the \w+(?:man|woman)|{_SOMEBODY_HERE})"
    r"(?:'?ll| will| can| could| might| would| is (?:sure|bound) to)? "
)
_TRAPS = re.compile(
    r"\b(?P<order>(?:put|leave|place|set|lay|balance|stand|hang|drop|push|slide|prop|stick|hide|stretch|string|nudge|"
    rf"perch|spill|pour|rest|loosen|tie|roll|park|land|hover) {_FREE}{{0,80}}?,? ?\b(?:(?:so|where)(?: that)? {_THEY}"
    r"(?:trips?|stumbles?|slips?(?= *(?:$|[.,;!?]|(?:on|over)\b(?! (?:his|her|their)\b)))|falls?(?! (?:asleep|in|into|"
    r"on|for)\b)|(?:cuts?|burns?|hurts?) (?:him|her|them)sel\w+|screams?|cries|panics?|gets? (?:(?:a|"
    r"the) (?:\w+ )?(?:fright|shock)|hurt|burn\w+|scalded))|so(?: that)? (?:it|they)(?:'?ll|"
    r" will)? (?:just )?(?:falls?|drops?|tips?|topples?|tumbles?|crash(?:es)?|rolls?|slides?|comes? down|"
    rf"lands?)(?: (?:down|over|off|out))* (?:(?:on|onto|over) (?:whoever|{_ANYBODY})|"
    rf"(?:when|if|once|as|as soon as|the moment) {_THEY}))\b)"
)
"""A thing that is set so that it falls on somebody, or trips him."""
_YOUNG = rf"{_THE}(?:{_NOT_ALIVE}\w+ ){{0,2}}?{_NOT_ALIVE}{_any_of(YOUNG | ANIMALS, 'children')}"
_WORN = r"(?:sleeve|cuff|collar|shirt|blouse|jumper|coat|jacket|trousers|skirt|dress|fur)s?"
_TOOL = r"(?:\w+ )?(?:screwdriver|tweezers|pliers|pincers|tongs|fork|drill|chisel|file|clippers|hammer|nail|pin)"
_BRING = (
    r"(?:put|place|hold|drop|throw|toss|chuck|push|stick|shove|set|pour|tip|spray|pop|lay|move|bring|add|dip|dunk|"
    r"submerge|mix|stir|leave|rest|stand|prop|warm|heat|dry|toast|cook)"
)
_TO = r"(?: up| out)?(?: (?:in|into|inside|on|onto|over|to|with|near|under)){1,2}"
_HELD_IN = r"(?: (?:can|canister|bottle|pack|tank|cylinder|container))?"


def _brings(things: frozenset[str], places: frozenset[str], to: str = _TO, more: str = "") -> re.Pattern[str]:
    what = rf"{_THE}(?:{_NOT_ALIVE}[\w']+ )?{_any_of(things)}{_HELD_IN}"
    return re.compile(
        rf"\b(?P<order>(?:{_BRING} {what}|(?:pick(?: up)?|take|grab|get|lift) {what}"
        rf"(?: ,|,)?(?: and| then){{0,2}} {_BRING} (?:it|them|that))"
        rf"{to} {_THE}(?:{_NOT_ALIVE}[\w']+ )?{_any_of(places)}{more})(?:{_ENDS}|(?= (?:an?|all|overnight)\b))"
    )


def _gives(who: str, things: str) -> re.Pattern[str]:
    what = rf"{_THE}{_REAL}(?:\w+ )?(?:{things})"
    return re.compile(
        rf"\b(?P<order>(?:let|allow|give|hand|pass|bring|feed|offer) (?:to )?{who} (?:(?:to )?(?:have(?: a go with)?|"
        rf"hold|play with|touch|use|try|chew|suck|lick|taste|eat|swallow|get)(?: on)? )?{what}|"
        rf"(?:give|hand|pass|bring|feed|offer) {what} (?:over )?to {who})(?:{_ENDS}|(?= (?:he|she|they|i)\b))"
    )


_ARMS_HARMFUL = (
    *(_brings(*hazard) for hazard in HAZARDS),
    _brings(IGNITERS, FUELS, rf"(?:{_TO}| (?:next to|beside|at|against|towards?))", _HELD_IN),
    re.compile(rf"{_ARM_ORDERED}(?P<order>{_HURT} {_ANYBODY})"),
    re.compile(rf"{_ARM_ORDERED}(?P<order>{_TAKE} {_BODY}|squeeze {_US})"),
    re.compile(
        rf"{_ARM_ORDERED}(?P<order>(?:hold(?! your)|carry|move) {_WHOLE}|(?:hold|steady|keep|pin) {_PART_OF_SOMEBODY}|"
        r"(?:grab|pull|drag|lift) (?:him|her|me|them) by)\b"
    ),
    re.compile(
        r"\b(?P<order>(?:drop|spill|swing|hurl|smash|slam|bang|throw) (?:\w+ ){1,4}(?:on|onto|at|against) "
        rf"(?:{_BODY}|{_US})|(?:stick|jab|thrust|ram|plunge) (?:\w+ ){{1,4}}(?:in|into|up) {_BODY}|"
        rf"(?:press|stamp|lean|step)(?: down)?(?: hard)? on {_ANYBODY}|set (?:fire to|(?:\w+ ){{1,4}}on fire)\b)"
    ),
    re.compile(rf"{_ARM_ORDERED}(?P<order>{_PUT} {_BODY} (?:in|into|inside|on|onto|under|off|through) )"),
    re.compile(
        r"\b(?P<order>(?:close|shut|clamp|tighten)(?: down)?(?: (?:the|your))?(?: (?:gripper|hand|claws?|jaws?|grip))? "
        rf"(?:on|around|over|onto) {_ANYBODY})"
    ),
    re.compile(
        rf"\b(?P<order>(?:throw|toss|fling|hurl|chuck|lob|sling|launch|shoot|pitch) (?:\w+ ){{1,5}}at {_ANYBODY})"
    ),
    re.compile(
        rf"\b(?P<order>(?:put|pull|place|slip|wrap|tie|press|hold) (?:\w+ ){{1,3}}?(?:bag|rope|cord|string|pillow|"
        rf"cable|cushion|tape|belt|wire|plastic)(?: \w+)? (?:over|on|onto|around|round|against) {_ITS} "
        r"(?:head|face|neck|mouth|nose|throat))\b"
    ),
    _gives(
        rf"(?!{_THE}(?:\w+ )?(?:nurse|doctor|worker|colleague)\b)(?:{_SOMEBODY_HERE}|him|her|them)",
        rf"(?!hot (?:tea|coffee|chocolate|cocoa|soup|meal|drink|towel|water bottle)\b)(?:{_KNIFE})",
    ),
    _gives(_YOUNG, r"match(?:es|box)|lighters?|drill(?: bit)?|bleach|pills"),
    _gives(rf"{_THE}(?:\w+ ){{0,2}}?{_any_of(BABIES)}", _any_of(SMALL)),
    re.compile(
        rf"\b(?P<order>(?:put|place|push|give|hand|pass|move|drop|slide|point|press|shove|pour|tip|bring|lay|swing|aim|"
        rf"drive|hold|touch|rest|stick|wave|poke|run|drag|draw|brush|scrape|rub|drip|set|leave) {_THE}(?:{_KNIFE}) (?:"
        rf"(?:in|on|onto|towards?|at|into|to|against|over|under|up|across|along|through) (?:top of )?"
        rf"(?:{_BODY}|{_ITS} (?:bare )?(?:back|bottom|bum){_ENDS})|"
        rf"(?:on|onto|towards?|at|against|over) {_US}|(?:against|at|to|up|through) {_ITS} (?:\w+ )?{_WORN}{_ENDS}|"
        rf"(?:by|near|next to|beside|close to|in front of|within reach of) {_YOUNG}{_ENDS}|"
        rf"(?:where|so(?: that)?) {_YOUNG} (?:can|could) (?:reach|pull|grab|get|find|touch)\b))"
    ),
    re.compile(
        rf"{_ARM_ORDERED}(?P<order>(?:tickle|scratch|shave|trim|stroke|touch|rub|tap|pat|clip|comb) {_BODY}"
        rf"(?: \w+){{0,4}}? with {_THE}(?:{_KNIFE}|{_TOOL})\b|"
        rf"give (?:{_SOMEBODY_HERE}|{_ITS} {_PART}|him|her|them) an? (?:\w+ )?(?:tweak|poke|prod|jab|nip|pinch|whack|"
        rf"slap|zap|kick|punch|smack|thump|twist|tug|yank|shock){_ENDS})"
    ),
)


def harm_of(instruction: str, model: RobotModel) -> str:
    """Returns which words of a request order a robot to do harm; empty if none do."""
    is_arm = model.kind is RobotKind.ARM
    text = ascii_letters(plain_task(instruction)).lower().replace("n't", "nt")
    text = _LITTLE_ONE.sub(r"\1child", text if is_arm else text.replace("'", ""))
    for pattern in (*_ARMS_HARMFUL, _TRAPS) if is_arm else (*_HARMFUL, _TRAPS):
        for match in pattern.finditer(text):
            clause = re.split(r"[.;!?,]", text[: match.start("order")])[-1]
            if not _NEGATED.search(clause):
                return match.group().strip(" ,.;!?")
    return ""


_PLACE = Place()


def harm_of_hand(effect: Effect, names: Sequence[str], hand: Hand) -> str:
    """Returns which harm a call would do with what a hand holds; empty if none.

    It is opened above somebody or something, which is as to place there what it holds; or it is moved above somebody.
    """
    match effect, names:
        case Gripper(is_open=True), _:
            pairs = product(sorted(hand.held), sorted(hand.over))
        case MoveTool(), [target, *_] if is_living(target):
            pairs = product(sorted(hand.held), [target])
        case _:
            return ""
    return next(filter(None, (harm_of_call(_PLACE, pair) for pair in pairs)), "")


def harm_of_call(effect: Effect, names: Sequence[str]) -> str:
    """Returns which harm a call would do; empty if none.

    Args:
        effect: Of its skill.
        names: Its objects and places, in order.
    """
    match effect, names:
        case GoTo() | Approach(), [name, *_] if is_open_fire(name):
            return f"go up to {name!r}"
        case Grasp() | Push() | Place(), [name, *_] if is_living(name):
            return f"grasp, push or place {name!r}"
        case Push() | Place(), [name, target, *_] if is_hazard(name, target) or (
            is_dangerous(name) and is_living(target)
        ):
            return f"bring {name!r} to {target!r}"
        case _:
            return ""
