# SPDX-License-Identifier: Apache-2.0
"""What a robot sees: rays through the world, no pictures. Something is seen if two of five points of it are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
NEEDED, SHARE = 2, 0.35  # points that must be seen; how far they lie from the centre, of its size
_ACROSS = np.array([1.0, -1.0, 0.0, 0.0])
_UP = np.array([0.0, 0.0, 1.0, -1.0])


def is_in_sight(
    mujoco: Any, model: Any, data: Any, eye: Vector, own_body: int, body: int, size_m: Sequence[float]
) -> bool:
    """Returns whether a body is not hidden behind others.

    Args:
        mujoco: The library.
        model: Compiled.
        data: Its state.
        eye: Where from.
        own_body: The body that looks; -1 for none. It hides nothing.
        body: Of what is looked at.
        size_m: Its length along x, y and z.
    """
    centre = np.array(data.xpos[body])
    ahead = centre - eye
    distance_m = float(np.linalg.norm(ahead))
    if distance_m < 1e-6:
        return True
    across = np.cross(ahead / distance_m, np.array([0.0, 0.0, 1.0]))
    length = float(np.linalg.norm(across))
    across = across / length if length > 1e-6 else np.array([1.0, 0.0, 0.0])
    wide_m, high_m = SHARE * max(size_m[0], size_m[1]), SHARE * size_m[2]
    around = (x * wide_m * across + z * high_m * np.array([0.0, 0.0, 1.0]) for x, z in zip(_ACROSS, _UP, strict=True))
    num_seen, left = 0, 5
    for offset in (np.zeros(3), *around):
        left -= 1
        num_seen += _reaches(mujoco, model, data, eye, own_body, body, centre + offset)
        if num_seen >= NEEDED or num_seen + left < NEEDED:
            break
    return num_seen >= NEEDED


def _reaches(mujoco: Any, model: Any, data: Any, eye: Vector, own_body: int, body: int, point: Vector) -> bool:
    """Returns whether the first thing on the way to a point is the body, or nothing is."""
    ray = point - eye
    hit = np.array([-1], dtype=np.int32)
    share = mujoco.mj_ray(model, data, eye, ray, None, 1, own_body, hit)
    return share < 0.0 or share >= 1.0 or int(model.geom_bodyid[hit[0]]) == body
