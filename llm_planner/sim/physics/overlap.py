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
    solid_centres, solid_radii = centres[solid], radii[solid]
    are_planes = model.geom_type[solid] == mujoco.mjtGeom.mjGEOM_PLANE
    for one in solid:
        if int(model.geom_bodyid[one]) not in bodies:
            continue
        apart_m = np.linalg.norm(solid_centres - centres[one], axis=1) - solid_radii - radii[one]
        for other in np.asarray(solid)[are_planes | (apart_m <= 0.0)].tolist():
            pair = sorted((int(model.geom_bodyid[one]), int(model.geom_bodyid[other])))
            roots = model.body_rootid[pair]
            if pair[0] == pair[1] or (roots[0] == roots[1] and roots[0] != 0) or (pair[0] << 16) + pair[1] in excluded:
                continue
            depth_m = -mujoco.mj_geomDistance(model, data, one, other, 0.05, np.zeros(6))
            if depth_m > TOUCHING_M:
                return model.body(pair[0]).name, model.body(pair[1]).name, float(depth_m)
    return None
