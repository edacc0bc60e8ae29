# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from llm_planner.engine import kernels, linear
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.model_config import ModelConfig
from tests.engine.builders import save_model


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module", params=["kernels", "torch"])
def computed_by(request):
    """What is computed between the products: our kernels where they were compiled, or torch alone."""
    if request.param == "kernels" and kernels.library_path() is None:
        pytest.skip("kernels were not compiled here (make setup, with GCC 12 or later)")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(kernels, "_load", lambda dtype: None)
        yield request.param


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
