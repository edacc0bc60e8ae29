# SPDX-License-Identifier: Apache-2.0
"""A pipeline profile: model, stages, links and memory of a pipeline-parallel engine, each number with its source."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.robots.record import Record, require

PIPELINES = Path(__file__).resolve().parents[3] / "profiles" / "pipelines"
DEFAULT_PIPELINE = "llama2-13b-4x12gb-100mbps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient(Record):
    """A number > 0 and where it comes from: measured, published, fitted to published results, or assumed."""

    value: float
    source: Literal["measured", "published", "fitted", "assumed"]

    def __post_init__(self) -> None:
        require(self.value > 0, "value must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost(Record):
    """What one stage computes, per layer, so that other numbers of stages can be asked for.

    Attributes:
        layer_s: A micro-batch, however small, on one layer: its weights are read once.
        layer_token_s: And for each of its tokens.
        layer_kv_token_s: And for each token in the caches of its sequences.
    """

    layer_s: Coefficient
    layer_token_s: Coefficient
    layer_kv_token_s: Coefficient


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCost(Record):
    """One link between neighbouring stages.

    Attributes:
        bandwidth_mbps: As it is called.
        bytes_per_s: What really comes through.
        bytes_per_token: Of a message between stages.
        latency_s: From the end of a message to its arrival, and from the last stage back to the scheduler.
    """

    bandwidth_mbps: Coefficient
    bytes_per_s: Coefficient
    bytes_per_token: Coefficient
    latency_s: Coefficient


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Record):
    """What fits on one stage.

    Attributes:
        bytes_per_stage: For weights and KV together.
        weight_bytes_per_layer: Weights.
        kv_bytes_per_layer_token: KV of one token.
    """

    bytes_per_stage: Coefficient
    weight_bytes_per_layer: Coefficient
    kv_bytes_per_layer_token: Coefficient


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProfile(Record):
    """What a simulated pipeline needs to know.

    Attributes:
        name: The file is ``<name>.yaml``.
        description: Model, devices, links, and how the fitted numbers were fitted.
        num_stages: Each on its own device; layers are divided equally.
        max_num_batched_tokens: The static token budget of the baselines.
    """

    name: str
    description: str
    model: str
    num_layers: int
    num_stages: int
    block_size: int
    max_num_batched_tokens: int
    stage: StageCost
    link: LinkCost
    memory: Memory
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        require(min(self.num_layers, self.block_size) > 0, "num_layers and block_size must be > 0")
        require(self.num_stages > 0, "num_stages must be > 0: a pipeline needs a stage")
        require(
            self.num_stages <= self.num_layers,
            f"num_stages is {self.num_stages}, but there are only {self.num_layers} layers: use fewer stages",
        )
        require(self.max_num_batched_tokens > 0, "max_num_batched_tokens is 0 or less: a budget of 0 schedules nothing")
        require(
            self.num_kv_tokens >= self.block_size,
            f"the weights of {self.layers_per_stage:g} layers leave no room for KV: use more stages or more memory",
        )

    @property
    def layers_per_stage(self) -> float:
        """Layers of one stage, on the mean."""
        return self.num_layers / self.num_stages

    @property
    def num_kv_tokens(self) -> int:
        """Tokens whose KV fits into every stage."""
        memory = self.memory
        free = memory.bytes_per_stage.value - memory.weight_bytes_per_layer.value * self.layers_per_stage
        return int(free / (memory.kv_bytes_per_layer_token.value * self.layers_per_stage))

    @property
    def times(self) -> PipelineTimes:
        """Of one stage and one link."""
        stage, link, layers = self.stage, self.link, self.layers_per_stage
        return PipelineTimes(
            compute_base_s=stage.layer_s.value * layers,
            compute_per_token_s=stage.layer_token_s.value * layers,
            compute_per_kv_token_s=stage.layer_kv_token_s.value * layers,
            link_latency_s=link.latency_s.value,
            link_per_token_s=link.bytes_per_token.value / link.bytes_per_s.value,
        )

    def with_stages(self, num_stages: int) -> "PipelineProfile":
        """Returns the same model on another number of the same devices.

        Raises:
            PlannerError: INVALID_CONFIG if that is not possible, saying why.
        """
        try:
            return replace(self, num_stages=num_stages)
        except ValueError as error:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"profile {self.name}: {error}") from error

    def with_bandwidth(self, bandwidth_mbps: float) -> "PipelineProfile":
        """Returns it with links of another bandwidth, of which the same part comes through."""
        nominal, actual = self.link.bandwidth_mbps, self.link.bytes_per_s
        factor = bandwidth_mbps / nominal.value
        link = replace(
            self.link,
            bandwidth_mbps=replace(nominal, value=bandwidth_mbps, source="assumed"),
            bytes_per_s=replace(actual, value=actual.value * factor, source="assumed"),
        )
        return replace(self, link=link)


_ADAPTER = TypeAdapter(PipelineProfile)


def load_pipeline(path: Path) -> PipelineProfile:
    """Returns the pipeline profile of a YAML file.

    Raises:
        PlannerError: INVALID_FILE, with the file and the path of everything that is missing, wrong or unknown.
    """
    try:
        return validated(_ADAPTER, read_yaml(path))
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"pipeline profile {path} {error}") from error


def find_pipeline(name: str) -> PipelineProfile:
    """Returns a shipped pipeline profile by name, or the one of a file by its path.

    Raises:
        PlannerError: INVALID_CONFIG for a name of none, naming the shipped ones; as ``load_pipeline``.
    """
    shipped = {path.stem: path for path in sorted(PIPELINES.glob("*.yaml"))}
    path = shipped.get(name, Path(name))
    if not (path.is_file() or path.suffix):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no pipeline profile {name!r}; known are {', '.join(shipped)}")
    return load_pipeline(path)
