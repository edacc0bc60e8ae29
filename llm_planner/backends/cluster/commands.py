# SPDX-License-Identifier: Apache-2.0
"""What each machine of a cluster runs."""

import shlex
from dataclasses import dataclass

from llm_planner.backends.cluster.description import Cluster, Joint
from llm_planner.core.errors import ErrorCode, PlannerError


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments and what is added to its environment; the last one of a machine runs on."""

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        names = (f"{name}={shlex.quote(value)}" for name, value in self.environment)
        return " ".join((*names, shlex.join(self.arguments)))


def node_commands(cluster: Cluster, index: int) -> list[Command]:
    """Returns what machine ``index`` runs, one after the other.

    With Ray, the head starts it and vLLM, and the others join; with vLLM alone, every machine runs its part of it. One
    machine needs neither.

    Raises:
        PlannerError: INVALID_CONFIG if there is no such machine.
    """
    if not 0 <= index < len(cluster.nodes):
        known = f"0 to {len(cluster.nodes) - 1}"
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"there is no node {index}; this cluster has nodes {known}")
    node, head = cluster.nodes[index], cluster.head
    own = (("VLLM_HOST_IP", node.address),)
    if len(cluster.nodes) == 1:
        return [Command(_serve(cluster, "mp"))]
    if cluster.joined_by is Joint.VLLM:
        return [Command((*_serve(cluster, "mp"), *_part(cluster, index)), own)]
    join = head.at(cluster.join_port)
    ray = (f"{cluster.vllm}/ray", "start", f"--node-ip-address={node.address}", f"--num-gpus={node.gpus}")
    if index > 0:
        return [Command((*ray, f"--address={join}", "--block"), own)]
    joined = (*own, ("RAY_ADDRESS", join))
    return [Command((*ray, "--head", f"--port={cluster.join_port}"), own), Command(_serve(cluster, "ray"), joined)]


def _part(cluster: Cluster, index: int) -> tuple[str, ...]:
    """Returns what tells vLLM which machine of how many this is; only the head answers HTTP."""
    part = (
        f"--nnodes={len(cluster.nodes)}",
        f"--node-rank={index}",
        f"--master-addr={cluster.head.address}",
        f"--master-port={cluster.join_port}",
    )
    return part if index == 0 else (*part, "--headless")


def _serve(cluster: Cluster, executor: str) -> tuple[str, ...]:
    return (
        f"{cluster.vllm}/vllm",
        "serve",
        cluster.model,
        f"--served-model-name={cluster.served_name}",
        f"--host={cluster.head.address}",
        f"--port={cluster.port}",
        f"--tensor-parallel-size={cluster.tensor_parallel}",
        f"--pipeline-parallel-size={cluster.pipeline_parallel}",
        f"--distributed-executor-backend={executor}",
        "--enable-prefix-caching",
        *cluster.extra,
    )
