# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from llm_planner.engine import linear
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.model_config import ModelConfig
from tests.engine.builders import save_model


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def backend(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=64)
    yield backend
    backend.check_integrity()
    backend.close()


@pytest.fixture(params=["plain and packed", "packed"])
def layout(request, monkeypatch):
    """Weights of tiny models are packed too: alongside the plain ones as of small models, or alone as of large ones."""
    monkeypatch.setattr(linear, "_LEAST_PACKED", 1)
    monkeypatch.setattr(ModelConfig, "is_large", request.param == "packed")
