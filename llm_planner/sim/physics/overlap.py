# SPDX-License-Identifier: Apache-2.0
"""Whether solids of a compiled model stand in each other."""

from collections.abc import Collection
from typing import Any

import numpy as np

TOUCHING_M = 0.002  # what lies on something goes so deep into it


def overlapping(mujoco: Any, model: Any, data: Any, bodies: Collection[int]) -> tuple[str, str, float] | None:
    """Returns the first pair of bodies that overlap, one of them among ``bodies``, and how deep in metres, or None.

    Args:
        mujoco: The library.
        model: Compiled.
        data: Its state, with positions computed.
        bodies: Numbers of the bodies to look at.
    """
    solid = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    centres, radii = data.geom_xpos, model.geom_rbound
    excluded = {int(signature) for signature in model.exclude_signature}
    for one in solid:
        if int(model.geom_bodyid[one]) not in bodies:
            continue
        for other in solid:
            pair = sorted((int(model.geom_bodyid[one]), int(model.geom_bodyid[other])))
            roots = model.body_rootid[pair]
            if pair[0] == pair[1] or (roots[0] == roots[1] and roots[0] != 0) or (pair[0] << 16) + pair[1] in excluded:
                continue
            is_plane = model.geom_type[other] == mujoco.mjtGeom.mjGEOM_PLANE
            apart = np.linalg.norm(centres[one] - centres[other]) - radii[one] - radii[other]
            if not is_plane and apart > 0.0:
                continue
            depth_m = -mujoco.mj_geomDistance(model, data, one, other, 0.05, np.zeros(6))
            if depth_m > TOUCHING_M:
                return model.body(pair[0]).name, model.body(pair[1]).name, float(depth_m)
    return None
