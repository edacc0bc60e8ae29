# SPDX-License-Identifier: Apache-2.0
"""What stands in a cluster file, checked before anything is started."""

from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, read_json, read_yaml, validated

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?"
Port = Annotated[int, Field(ge=1, le=65535)]


class Joint(Enum):
    """What makes several machines one."""

    RAY = "ray"
    VLLM = "vllm"  # its own worker processes, over torch.distributed


class Node(BaseModel):
    """A machine: its address in the network that joins the machines, and how many of its GPUs are used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: Annotated[str, Field(pattern=f"^{_HOST}$")]
    gpus: Annotated[int, Field(ge=1, le=64)]

    def at(self, port: int) -> str:
        """Returns the address with a port, as URLs have it."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"


class Cluster(BaseModel):
    """Machines that serve one model.

    A layer is split over ``tensor_parallel`` GPUs of one machine; the layers are cut into ``pipeline_parallel`` stages,
    which may stand on different machines: only activations of a token pass from stage to stage.

    Attributes:
        model: Checkpoint directory, the same path on every machine.
        served_name: As the planner asks for it (``openai.model``).
        nodes: The first one is the head: it answers HTTP.
        port: Of the head's HTTP server.
        joined_by: Ray, or vLLM alone: then all machines hold as many GPUs of the model, and nothing else is installed.
        join_port: Of the head, for the other machines.
        vllm: The directory with the commands ``vllm`` and ``ray`` on every machine.
        extra: Further arguments of ``vllm serve``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: Annotated[str, Field(min_length=1)]
    served_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] = "planner"
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)]
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    pipeline_parallel: Annotated[int, Field(ge=1, le=256)] = 1
    port: Port = 8000
    joined_by: Joint = Joint.RAY
    join_port: Port = 6379
    vllm: Annotated[str, Field(min_length=1)] = ".venv-vllm/bin"
    extra: tuple[str, ...] = ()

    @field_validator("model", "vllm")
    @classmethod
    def _no_option(cls, value: str) -> str:
        if value.startswith("-"):
            raise ValueError("is no path")
        return value

    @model_validator(mode="after")
    def _fits(self) -> "Cluster":
        addresses = [node.address for node in self.nodes]
        if len(set(addresses)) < len(addresses):
            raise ValueError("nodes: two of them have the same address")
        if self.port == self.join_port:
            raise ValueError("port and join_port are the same")
        places = sum(node.gpus // self.tensor_parallel for node in self.nodes)
        if places < self.pipeline_parallel:
            raise ValueError(
                f"pipeline_parallel is {self.pipeline_parallel}, but the nodes have room for {places} stages of "
                f"{self.tensor_parallel} GPUs each: a stage stands on one machine"
            )
        if self.joined_by is Joint.VLLM and any(node.gpus < self.gpus_per_node for node in self.nodes):
            raise ValueError(
                f"joined_by is vllm, which takes as many GPUs of every machine: {self.gpus_per_node} of each here"
            )
        if self.joined_by is Joint.VLLM and self.pipeline_parallel % len(self.nodes):
            raise ValueError(
                f"joined_by is vllm, which puts as many stages on every machine, but {self.pipeline_parallel} stages "
                f"do not divide among {len(self.nodes)} machines"
            )
        return self

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each machine where all hold as many."""
        return self.tensor_parallel * self.pipeline_parallel // len(self.nodes)

    @property
    def head(self) -> Node:
        """The machine that answers HTTP."""
        return self.nodes[0]


def load_cluster(path: Path) -> Cluster:
    """Returns what a cluster file says; the model's own limits are checked if the checkpoint is on this machine.

    Raises:
        PlannerError: INVALID_FILE, naming every field that is unknown, missing, or wrong; INVALID_CONFIG for a model
            that does not fit.
    """
    try:
        cluster = validated(TypeAdapter(Cluster), read_yaml(path))
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error
    _check_model(cluster, path)
    return cluster


def _check_model(cluster: Cluster, path: Path) -> None:
    file = Path(cluster.model) / "config.json"
    if not file.is_file():
        return
    try:
        config = read_json(file)
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path}: {file} {error}") from error
    known = config if isinstance(config, dict) else {}
    num_layers, num_heads = known.get("num_hidden_layers"), known.get("num_attention_heads")
    if isinstance(num_layers, int) and cluster.pipeline_parallel > num_layers:
        message = (
            f"{path}: pipeline_parallel is {cluster.pipeline_parallel}, but {cluster.model} has {num_layers} layers"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    if isinstance(num_heads, int) and num_heads % cluster.tensor_parallel:
        message = f"{path}: tensor_parallel is {cluster.tensor_parallel} and does not divide the {num_heads} heads"
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{message} of {cluster.model}")
