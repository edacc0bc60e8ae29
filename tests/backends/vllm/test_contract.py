# SPDX-License-Identifier: Apache-2.0
"""The version and the insides of vLLM that we rely on."""

from types import SimpleNamespace

import pytest

from llm_planner.backends.vllm import contract
from llm_planner.backends.vllm.engine import EngineSettings, start_engine
from llm_planner.core.errors import ErrorCode, PlannerError


@pytest.mark.parametrize("hook", contract.HOOKS, ids=lambda hook: hook.path)
def test_hook_is_as_we_know_it(hook):
    pytest.importorskip("vllm")
    assert contract.check_hook(hook) is None


@pytest.mark.parametrize(
    "hook",
    [
        contract.Hook("json:gone", "reads"),
        contract.Hook("no_such_module:gone", "reads"),
        contract.Hook("json:dumps", "writes", ("text",)),
    ],
)
def test_a_hook_that_differs_is_named_with_its_purpose(hook):
    problem = contract.check_hook(hook)
    assert hook.path in problem
    assert hook.why in problem


def test_a_hook_may_take_more_arguments_than_we_give():
    assert contract.check_hook(contract.Hook("json:dumps", "writes", ("obj",))) is None


@pytest.mark.parametrize("version", [None, "0.31.2", "0.33.0", "1.0"])
def test_another_version_is_refused_before_anything_is_loaded(monkeypatch, tmp_path, version):
    monkeypatch.setattr(contract, "installed_version", lambda: version)
    with pytest.raises(PlannerError, match=r"make setup-vllm") as error:
        start_engine(EngineSettings(model_dir=tmp_path))
    assert error.value.code is (ErrorCode.VERSION_MISMATCH if version else ErrorCode.NOT_INSTALLED)
    assert (version or "none here") in error.value.message


def test_an_attribute_that_was_renamed_is_named(monkeypatch):
    monkeypatch.setattr(contract, "ATTRIBUTES", {"core": ("queue", "manager.backend", "manager.gone", "other.name")})
    core = SimpleNamespace(queue=None, manager=SimpleNamespace(backend=1))
    assert contract.missing_attributes("core", core) == ["core.manager.gone is gone", "core.other.name is gone"]


def test_every_hook_that_is_gone_is_named(monkeypatch):
    monkeypatch.setattr(contract, "HOOKS", (contract.Hook("json:a", "x"), contract.Hook("json:b", "y")))
    with pytest.raises(PlannerError, match=r"json:a.*json:b"):
        contract.require_hooks()
