# SPDX-License-Identifier: Apache-2.0
"""The singular of a word: "the knives" of an instruction are ``knife_1`` and ``knife_2`` of a scene."""

import re
from functools import lru_cache

_IRREGULAR: dict[str, str] = dict(
    re.findall(
        r"(\w+):(\w+)",
        "knives:knife penknives:penknife shelves:shelf bookshelves:bookshelf leaves:leaf loaves:loaf halves:half "
        "calves:calf hooves:hoof wolves:wolf thieves:thief scarves:scarf wives:wife men:man women:woman "
        "firemen:fireman policemen:policeman postmen:postman workmen:workman craftsmen:craftsman gentlemen:gentleman "
        "snowmen:snowman children:child grandchildren:grandchild schoolchildren:schoolchild mice:mouse geese:goose "
        "teeth:tooth feet:foot toes:toe canoes:canoe axes:axe lens:lens lenses:lens",
    )
)
_OF_WORDS_IN_S = (
    *("buses", "iuses", "nuses", "ocuses", "puses", "rcuses", "ruses", "tuses"),
    *("atlases", "gases", "irises"),
)
"""How plurals of words end that end with an ``s`` themselves."""


@lru_cache(maxsize=8192)
def singular(word: str) -> str:
    """Returns a word without the ending of a plural; a few other words lose one too, so compare both sides."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("ies", "ie")) and len(word) > 4:  # also cookie, whose plural looks like that of berry
        return f"{word[: word.rindex('ie')]}y"
    if word.endswith(_OF_WORDS_IN_S):
        return singular(word[:-2])
    if word.endswith(("xes", "ches", "shes", "sses", "oes")) and not word.endswith("shoes"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
