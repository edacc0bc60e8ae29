# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo specification of a world, and the same world again after something was put into it or taken out."""

from collections.abc import Iterable
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.shape import ChainBody, QuadrotorBody, Shape
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.mujoco_loader import load_mujoco
from llm_planner.sim.physics.overlap import overlapping
from llm_planner.sim.physics.solids import add_chain, add_quadrotor, add_shape, quaternion
from llm_planner.sim.physics.things import Thing

STEP_S = 0.002
AIR_KG_PER_M3, AIR_PA_S = 1.2, 1.8e-5  # published: density and viscosity at 20 degrees
BENCH_M = (1.2, 1.7)  # the table that an arm stands on; its top is the arm's height 0


class Scene:
    """Specification, compiled model and state. Numbers of the model hold until the next change."""

    def __init__(self) -> None:
        self.mujoco = mujoco = load_mujoco()
        self.spec = spec = mujoco.MjSpec()
        spec.compiler.degree = False
        spec.option.timestep = STEP_S
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.density, spec.option.viscosity = AIR_KG_PER_M3, AIR_PA_S
        spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
        spec.visual.headlight.ambient = [0.42, 0.42, 0.42]
        spec.visual.headlight.diffuse = [0.2, 0.2, 0.2]
        spec.visual.map.zfar = 200.0
        self._paint()
        self.things: dict[str, Thing] = {}
        self.model: Any = spec.compile()
        self.data: Any = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    def _paint(self) -> None:
        mujoco, spec = self.mujoco, self.spec
        sky, checks = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
        spec.add_texture(
            name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=sky, rgb1=[0.95, 0.97, 1.0],
            rgb2=[0.6, 0.7, 0.82], width=256, height=256,
        )  # fmt: skip
        spec.add_texture(
            name="floor", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=checks, rgb1=[0.78, 0.76, 0.72],
            rgb2=[0.72, 0.7, 0.66], width=256, height=256,
        )  # fmt: skip
        material = spec.add_material(name="floor", texrepeat=[0.5, 0.5], texuniform=True, reflectance=0.0)
        material.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = "floor"
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        spec.worldbody.add_geom(name="floor", type=plane, size=[0.0, 0.0, 1.0], material="floor")
        spec.worldbody.add_light(
            pos=[0.0, 0.0, 20.0], dir=[0.2, 0.3, -1.0], castshadow=True, type=1, diffuse=[0.45, 0.45, 0.43]
        )

    def add_robot(self, name: str, shape: QuadrotorBody | ChainBody, home: Home) -> None:
        """Adds a robot's body at its home; an arm brings the table that it stands on."""
        if isinstance(shape, QuadrotorBody):
            height_m = home.z_m + shape.link.radius_m / 2.0
            add_quadrotor(self.spec, name, shape, (home.x_m, home.y_m, height_m), home.yaw_deg)
        else:
            add_chain(self.spec, name, shape, (home.x_m, home.y_m, home.z_m), home.yaw_deg)
            self._add_bench(name, home)
        self.compile()

    def _add_bench(self, name: str, home: Home) -> None:
        """Adds a table whose top is the height 0 of an arm, unless the arm stands on something else."""
        if home.z_m <= 0.0:
            return
        at_m = home.to_world((BENCH_M[0] / 2.0 - 0.3, 0.0, -home.z_m / 2.0))
        bench = Shape(kind="box", size_m=(*BENCH_M, home.z_m - 1e-3), colour=(0.62, 0.5, 0.38))
        turn = quaternion((0.0, 0.0, home.yaw_deg))
        add_shape(self.spec.worldbody.add_body(name=f"{name}/:bench", pos=at_m, quat=turn), bench)

    def change(self, *, take: Iterable[Thing] = (), put: Iterable[Thing] = (), hands: Iterable[str] = ()) -> None:
        """Takes things out and puts others in; what stays keeps its state.

        Args:
            take: What goes.
            put: What comes.
            hands: Bodies of the grippers that could weld what comes to themselves.
        """
        for thing in take:
            for equality in [e for e in self.spec.equalities if e.name2 == thing.body]:
                self.spec.delete(equality)
            self.spec.delete(self.spec.body(thing.body))
            del self.things[thing.body]
        for thing in put:
            thing.add_to(self.spec)
            self.things[thing.body] = thing
            for hand in hands if thing.is_loose else ():
                self.spec.add_equality(
                    name=f"{hand}>{thing.body}", type=self.mujoco.mjtEq.mjEQ_WELD, name1=hand, name2=thing.body,
                    objtype=self.mujoco.mjtObj.mjOBJ_BODY, active=False,
                )  # fmt: skip
        self.compile()

    def compile(self) -> None:
        """Brings model and state in line with the specification; what a robot holds stays held, as it was."""
        welds = {
            self.model.equality(number).name: self.model.eq_data[number].copy()
            for number in range(self.model.neq)
            if self.data.eq_active[number]
        }
        wind = self.model.opt.wind.copy()
        self.model, self.data = self.spec.recompile(self.model, self.data)
        self.model.opt.wind[:] = wind
        for number in range(self.model.neq):
            held = welds.get(self.model.equality(number).name)
            self.data.eq_active[number] = held is not None
            if held is not None:
                self.model.eq_data[number] = held
        self.mujoco.mj_forward(self.model, self.data)

    def require_apart(self, bodies: Iterable[str]) -> None:
        """Raises PlannerError INVALID_CONFIG if one of the bodies, or a part of it, stands in another one."""
        wanted = {self.model.body(name).id for name in bodies}
        parts = {b for b in range(self.model.nbody) if b in wanted or int(self.model.body_rootid[b]) in wanted}
        found = overlapping(self.mujoco, self.model, self.data, parts - {0})
        if found is not None:
            one, other, depth_m = found
            raise PlannerError(
                ErrorCode.INVALID_WORLD,
                f"{_plain(one)} and {_plain(other)} overlap by {1000 * depth_m:.0f} mm; move one of them",
            )


def _plain(body: str) -> str:
    return {"world": "the floor"}.get(body, body.rpartition(":")[2])
