# SPDX-License-Identifier: Apache-2.0
"""What comes, and from where: the words of the command line."""

from enum import Enum


class Kind(Enum):
    """What comes."""

    PERSON = "person"
    ANIMAL = "animal"
    BALL = "ball"


class Begin(Enum):
    """Where it is when an encounter begins."""

    FAR = "far"  # outside the range of the drone's sensors, in any direction
    NEAR = "near"  # 3 m or more from the meeting point, in sight or not


class Asking(Enum):
    """What the drone says of it."""

    PASSES = "passes"  # on which side of the drone it will pass
    COMES = "comes from"  # from which side it comes
