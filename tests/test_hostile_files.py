# SPDX-License-Identifier: Apache-2.0
"""Damaged files of every kind that is read: each is read, or refused with a numbered error; nothing else is raised."""

import contextlib
import json
import random
import shutil

import pytest

from llm_planner.backends.cluster.description import load_cluster
from llm_planner.checkpoints import build_prompt_encoder
from llm_planner.configuration import load_config
from llm_planner.core.errors import PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.length_config import load_length_config
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.tokenizer import load_tokenizer
from llm_planner.prediction.profile import load_profile
from llm_planner.prediction.throughput.catalogue import load_catalogue
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.table import read_table
from llm_planner.robots.library import load_robot_model
from llm_planner.sim.physics.world_file import load_world_file
from tests.hostile import damaged_bytes, damaged_json

SHARE = share_dir()
MODEL, LENGTHS = SHARE / "models" / "planner-small", SHARE / "models" / "planner-small-length"


def in_checkpoint(read):
    """Returns a reader of one file of a checkpoint, with valid copies of the others next to it."""

    def read_file(path):
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            if name != path.name:
                (path.parent / name).symlink_to(MODEL / name)
        return read(path.parent)

    return read_file


def open_checkpoint(directory):
    return Checkpoint(directory, read_model_config(directory))


def of_bytes(rng, text):
    return damaged_bytes(rng, text.encode()).decode("utf-8", "surrogateescape")


JSON_FILES = {
    "config.json": (MODEL / "config.json", in_checkpoint(open_checkpoint), 80),
    "tokenizer.json": (MODEL / "tokenizer.json", in_checkpoint(load_tokenizer), 30),
    "tokenizer_config.json": (MODEL / "tokenizer_config.json", in_checkpoint(build_prompt_encoder), 30),
    "planner.json": (MODEL / "planner.json", in_checkpoint(build_prompt_encoder), 30),
    "length.json": (LENGTHS / "length.json", lambda path: load_length_config(path.parent), 80),
    "throughput.json": (SHARE / "profiles" / "throughput" / "default.json", load_kernel_model, 8),
}
OTHER_FILES = {
    "table.csv": (SHARE / "profiles" / "throughput" / "llm_inference_bench.csv", read_table, 60),
    "catalogue.yaml": (SHARE / "profiles" / "throughput" / "catalogue.yaml", load_catalogue, 30),
    "profile.yaml": (SHARE / "profiles" / "planner-small-cpu.yaml", load_profile, 30),
    "tello.yaml": (SHARE / "robot_models" / "tello.yaml", load_robot_model, 8),
    "house.yaml": (SHARE / "worlds" / "house.yaml", lambda path: load_world_file(str(path)), 8),
    "cluster.yaml": (SHARE / "config" / "cluster.yaml", load_cluster, 30),
    "planner.yaml": (SHARE / "config" / "planner.yaml", load_config, 30),
}


def check(directory, name, text, damage, read, number):
    for seed in range(number):
        place = directory / str(seed)
        place.mkdir()
        content = damage(random.Random(f"{name} {seed}"), text).encode("utf-8", "surrogatepass")
        (place / name).write_bytes(content)
        with contextlib.suppress(PlannerError):
            read(place / name)
        shutil.rmtree(place)


@pytest.mark.parametrize("name", JSON_FILES)
def test_damaged_json_is_read_or_refused(tmp_path, name):
    source, read, number = JSON_FILES[name]
    check(tmp_path, name, source.read_text(encoding="utf-8"), damaged_json, read, number)


@pytest.mark.parametrize("name", OTHER_FILES)
def test_damaged_text_is_read_or_refused(tmp_path, name):
    source, read, number = OTHER_FILES[name]
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)[:400]
    check(tmp_path, name, "".join(lines), of_bytes, read, number)


def test_a_damaged_header_of_weights_is_refused_or_harmless(tmp_path):
    content = (MODEL / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    for seed in range(40):
        rng = random.Random(seed)
        header = damaged_json(rng, content[8 : 8 + length].decode()).encode("utf-8", "surrogatepass")
        says = rng.choice((len(header), len(header), 0, 1, len(header) + 10**9, 2**63, 2**64 - 1))
        place = tmp_path / str(seed)
        place.mkdir()
        path = place / "model.safetensors"
        path.write_bytes(says.to_bytes(8, "little") + header + content[8 + length : 10_000])
        with contextlib.suppress(PlannerError):
            in_checkpoint(open_checkpoint)(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 2**31),
        ("vocab_size", 10**30),
        ("num_attention_heads", 0),
        ("hidden_size", -64),
        ("intermediate_size", 0),
        ("rms_norm_eps", 10**400),
        ("rms_norm_eps", 0.0),
        ("rope_theta", "1e999"),
        ("architectures", 7),
        ("architectures", [[]]),
        ("layer_types", 5),
        ("rope_scaling", {"rope_type": "llama3", "factor": "much"}),
    ],
)
def test_a_model_of_impossible_size_is_refused_before_anything_is_made_of_it(tmp_path, key, value):
    values = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
    if key == "rope_theta":
        values.pop("rope_parameters", None)
    (tmp_path / "config.json").write_text(json.dumps(values | {key: value}), encoding="utf-8")
    with pytest.raises(PlannerError):
        read_model_config(tmp_path)
