# SPDX-License-Identifier: Apache-2.0
"""Numbers and the many ways to say them."""

import random

_WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
_TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}


def decimal(number: float) -> str:
    """Returns the number without needless zeros: ``1.5``, ``2``."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def distance_cm(rng: random.Random, low_cm: int = 20, high_cm: int = 500) -> tuple[int, str]:
    """Returns a distance in centimetres and a way to say it."""
    step = rng.choice((1, 5, 10, 10, 10, 50, 100, 100, 100))
    number = max(low_cm, min(high_cm, rng.randint(low_cm // step, high_cm // step) * step))
    return number, said_distance(rng, number)


def said_distance(rng: random.Random, number: int) -> str:
    """Returns a way to say a distance in centimetres."""
    ways = [f"{number} cm", f"{number} cm", f"{number}cm", f"{number} centimeters", f"{number} centimetres"]
    metres = decimal(number / 100)
    ways += [f"{metres} m", f"{metres} meters", f"{metres}m", f"{metres} metres"]
    if number % 100 == 0 and number // 100 in _WORDS:
        said = _WORDS[number // 100]
        ways += ["one meter", "a meter", "1 meter"] if number == 100 else [f"{said} meters", f"{said} metres"] * 2
    if number in _TENS:
        ways += [f"{_TENS[number]} centimeters", f"{_TENS[number]} cm"]
    if number == 50:
        ways += ["half a meter", "half a metre"] * 2
    if number == 150:
        ways += ["one and a half meters", "one and a half metres"] * 2
    return rng.choice(ways)


def angle_deg(rng: random.Random) -> tuple[int, str]:
    """Returns an angle in degrees and a way to say it."""
    kind = rng.random()
    if kind < 0.4:
        number = rng.choice((30, 45, 60, 90, 90, 120, 135, 180, 180, 270, 360))
    elif kind < 0.7:
        number = 5 * rng.randint(1, 72)
    else:
        number = rng.randint(1, 360)
    ways = [
        f"{number} degrees",
        f"{number} degrees",
        f"{number} deg",
        f"{number}°",
        f"by {number} degrees",
        f"{number}",
    ]
    if number in _TENS:
        ways.append(f"{_TENS[number]} degrees")
    return number, rng.choice(ways)


def seconds(rng: random.Random) -> tuple[int, str]:
    """Returns a time in seconds, 1 to 60, and a way to say it."""
    number = rng.choice((1, 2, 3, 5, 10, rng.randint(1, 60)))
    ways = [f"{number} seconds", f"{number} s", f"{number} sec", f"{number}s"]
    if number in _WORDS:
        ways.append(f"{_WORDS[number]} second" + "s" * (number > 1))
    return number, rng.choice(ways)


def times(rng: random.Random) -> tuple[int, str]:
    """Returns a repetition, 2 to 10, and a way to say it."""
    number = rng.choice((2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10))
    ways = [f"{number} times", f"{_WORDS[number]} times"]
    return number, rng.choice(["twice", "two times", "2 times"] if number == 2 else ways)
