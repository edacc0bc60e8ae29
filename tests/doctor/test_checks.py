# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of broken installations, and that no check holds up the rest."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import llm_planner
from llm_planner.cli import doctor, main
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.doctor import machine, model_check, model_probe, network
from llm_planner.doctor.finding import Finding, Level, examine
from llm_planner.doctor.probe import Answer, probe
from llm_planner.engine import kernels

TORCH = {"torch": "2.13.0+cpu", "cuda_build": None, "devices": [], "has_kernels": True, "kernels_problem": None}
SEEN = {"rmw": "rmw_fastrtps_cpp", "domain": "7", "trips_ms": [1.0, 3.0, 2.0], "planners": [], "robots": ["/drone_1"]}


def levels(findings):
    return {finding.check: finding.level for finding in findings}


def test_a_check_that_hangs_or_breaks_is_a_finding_and_the_others_still_run():
    held = threading.Event()

    def hang():
        held.wait(30.0)
        return []

    def crash():
        raise RuntimeError("torn")

    checks = {"slow": hang, "torn": crash, "well": lambda: [Finding(check="well", text="it is")]}
    found = examine(checks, 0.5, MonotonicClock())
    held.set()
    assert [(f.check, f.level) for f in found] == [
        ("slow", Level.ERROR),
        ("torn", Level.ERROR),
        ("well", Level.OK),
    ]
    assert "0.5 s" in found[0].text
    assert "torn" in found[1].text


def test_every_problem_comes_with_what_to_do(monkeypatch):
    monkeypatch.setattr(machine, "LEAST_DISK_GB", 1e9)
    monkeypatch.setattr(machine, "LEAST_MEMORY_GB", 1e9)
    found = [*machine.space(), *machine.ports([8080])]
    assert all(finding.fix for finding in found if finding.level is not Level.OK)
    assert levels(found)["disk"] is Level.WARNING


def test_this_python_and_its_packages_are_as_tested():
    assert levels(machine.versions()) == {"versions": Level.OK}


def test_packages_that_are_missing_or_others_are_named(monkeypatch):
    monkeypatch.setattr(machine, "_pins", lambda _: {"no_such_package": "1.0", "numpy": "0.0.1"})
    missing, others = machine.versions()
    assert (missing.level, others.level) == (Level.ERROR, Level.WARNING)
    assert "no_such_package" in missing.text
    assert "tested: 0.0.1" in others.text


def test_a_python_that_is_too_old_is_an_error(monkeypatch):
    monkeypatch.setattr(machine, "OLDEST", (4, 0))
    (finding,) = machine.versions()
    assert finding.level is Level.ERROR
    assert "PYTHON=" in finding.fix


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (finding,) = machine.ports([port])
    assert finding.level is Level.WARNING
    assert str(port) in finding.text


@pytest.mark.parametrize(
    ("values", "has_driver", "level", "words"),
    [
        ({}, False, Level.OK, "processor"),
        ({}, True, Level.WARNING, "without CUDA"),
        (
            {"has_kernels": False, "kernels_problem": "it was not compiled"},
            False,
            Level.WARNING,
            "without the engine's own kernels",
        ),
        ({"kernels_problem": "it is of another version"}, False, Level.WARNING, "not used: it is of another version"),
        ({"cuda_build": "13.0"}, True, Level.WARNING, "cannot use"),
        ({"cuda_build": "13.0", "devices": ["NVIDIA H200"]}, True, Level.OK, "H200"),
    ],
)
def test_what_torch_makes_of_a_gpu(values, has_driver, level, words):
    finding = model_check._gpu(Answer({**TORCH, **values}), has_driver=has_driver)
    assert finding.level is level
    assert words in finding.text
    assert bool(finding.fix) == (level is not Level.OK)


@pytest.mark.parametrize("code", [ErrorCode.MODEL_NOT_FOUND, ErrorCode.CHECKPOINT_INVALID, ErrorCode.INVALID_CONFIG])
def test_a_model_that_is_not_whole_is_an_error_with_its_number(code):
    finding = model_check._model("mine", Answer({"error_code": int(code), "error_msg": "shards are missing"}))
    assert finding.level is Level.ERROR
    assert f"{code.name} {int(code)}" in finding.text
    assert finding.fix


def test_it_is_said_which_profile_time_budgets_count_on(monkeypatch):
    facts = {**TORCH, "size_bytes": 1, "is_loaded": True, "load_s": 1.0}
    texts = []
    for profile in ("", "planner-small-0123, measured 3 days ago"):
        monkeypatch.setattr(
            model_check, "probe", lambda *_, profile=profile, **__: Answer({**facts, "profile": profile})
        )
        found = {finding.check: finding for finding in model_check.model_and_gpu("mine", "load", timeout_s=1.0)}
        assert found["profile"].level is Level.OK
        texts.append(found["profile"].text)
    assert "was not measured yet" in texts[0]
    assert texts[1] == "time budgets count on planner-small-0123, measured 3 days ago"


def test_what_ran_out_of_time_needs_no_new_installation():
    found = [*model_check.model_and_gpu("mine", "check", timeout_s=0.01), *network.ros([], 0.01)]
    late = [finding for finding in found if "no answer within" in finding.text]
    assert {finding.check for finding in late} >= {"model"}
    assert all("--timeout" in finding.fix and machine.SETUP not in finding.fix for finding in late)


@pytest.mark.parametrize("name", ["é", "", "/", "drone 1", "1st", "a\nb"])
def test_a_robot_that_cannot_be_is_refused_at_once(name, monkeypatch):
    monkeypatch.setattr(doctor, "_checks", lambda *_: 1 / 0)
    error = CliRunner().invoke(main.app, ["doctor", "--robot", name]).exception
    assert error.code is ErrorCode.INVALID_ROBOT_ID
    assert f"{name!r} is no robot's name" in error.message


def test_robots_that_can_be_are_looked_for():
    network.require_names(["drone_1", "/site_b/drone_1", "192.168.10.1", "robot.local", "::1"])


def test_a_model_probe_that_dies_is_an_error():
    found = list(model_check.model_and_gpu("--no-such-thing", "what", timeout_s=0.05))
    assert levels(found) == {"model": Level.ERROR}


@pytest.mark.slow
def test_the_bundled_model_is_whole_and_a_truncated_copy_is_not(tmp_path):
    whole = probe("llm_planner.doctor.model_probe", "planner-small", "check", timeout_s=100.0)
    assert (whole.error, whole.values["is_loaded"]) == ("", False)
    source = machine.share_dir() / "models" / "planner-small"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[: 1000 if path.suffix == ".safetensors" else None])
    broken = probe("llm_planner.doctor.model_probe", str(tmp_path), "auto", timeout_s=100.0)
    assert broken.values["error_code"] == ErrorCode.CHECKPOINT_INVALID


def test_a_checked_model_is_one_that_would_load(tmp_path):
    source = machine.share_dir() / "models" / "planner-small"
    shutil.copytree(source, tmp_path / "model")
    assert model_probe.model_facts(str(tmp_path / "model"), "check")["is_loaded"] is False
    config = json.loads((source / "config.json").read_text())
    (tmp_path / "model/config.json").write_text(json.dumps(config | {"vocab_size": 3000}))
    weights = load_file(source / "model.safetensors")
    cut = {
        name: weight[:3000] if weight.shape[0] == config["vocab_size"] else weight for name, weight in weights.items()
    }
    save_file({name: weight.contiguous() for name, weight in cut.items()}, tmp_path / "model/model.safetensors")
    with pytest.raises(PlannerError, match="tokenizer and model do not belong together"):
        model_probe.model_facts(str(tmp_path / "model"), "check")


def test_a_length_predictor_is_no_planner_model():
    with pytest.raises(PlannerError, match="writes no plans"):
        model_probe.model_facts("planner-small-length", "check")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "not compiled"), (b"nonsense", "libllm_planner_kernels"), ("stale", "compiled from another version")],
)
def test_kernels_that_cannot_be_used_are_no_kernels(tmp_path, monkeypatch, content, words):
    library = tmp_path / kernels.LIBRARY
    if content == "stale":
        compiler = shutil.which("gcc") or pytest.skip("needs gcc")
        (tmp_path / "stale.c").write_text('const char* source_sha256(void) { return "0"; }')
        subprocess.run([compiler, "-shared", "-fPIC", tmp_path / "stale.c", "-o", library], check=True)
    elif content is not None:
        library.write_bytes(content)
    monkeypatch.setattr(llm_planner, "__path__", [str(tmp_path)])
    facts = model_probe.torch_facts()
    assert facts["has_kernels"] is (content is not None)
    assert words in facts["kernels_problem"]


def test_no_message_over_dds_is_an_error_that_says_which_ports():
    finding = network._transport(Answer({**SEEN, "trips_ms": []}))
    assert finding.level is Level.ERROR
    assert "7400" in finding.fix
    assert network._transport(Answer(SEEN)).text.startswith("round trip between two processes: median 2.0 ms")


def test_robots_are_looked_for_by_the_name_of_their_node():
    found = list(network._who(Answer(SEEN), ["drone_1", "/drone_2"]))
    assert [f.text for f in found if f.level is Level.ERROR] == ["no robot node /drone_2 can be seen"]


@pytest.mark.parametrize(
    ("text", "is_address"), [("drone_1", False), ("/a/drone", False), ("192.168.10.1", True), ("::1", True)]
)
def test_names_and_addresses_are_told_apart(text, is_address):
    assert network.is_address(text) == is_address


@pytest.mark.parametrize("has_ping", [True, False])
def test_this_machine_answers(monkeypatch, has_ping):
    if not has_ping:
        monkeypatch.setattr(network.shutil, "which", lambda _: None)
    (finding,) = network.robot_at("127.0.0.1")
    assert finding.level is Level.OK


@pytest.mark.parametrize(("status", "level"), [(0, Level.OK), (1, Level.ERROR), (2, Level.OK)])
def test_a_ping_that_may_not_be_sent_says_nothing_of_a_machine(tmp_path, monkeypatch, status, level):
    ping = tmp_path / "ping"
    ping.write_text(f"#!/bin/sh\nexit {status}\n")
    ping.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (finding,) = network.robot_at("127.0.0.1")
    assert finding.level is level


def test_a_host_name_without_an_address_is_an_error(monkeypatch):
    def unknown(_):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(network.socket, "gethostbyname", unknown)
    (finding,) = network.robot_at("drone.example")
    assert finding.level is Level.ERROR
    assert "Name or service not known" in finding.text


def test_a_host_name_that_cannot_be_is_an_error():
    (finding,) = network.robot_at("drone..1")
    assert finding.level is Level.ERROR
    assert "drone..1 has no address" in finding.text


@pytest.mark.parametrize(
    ("domain", "level"), [("", None), ("0", None), ("101", None), ("102", "WARNING"), ("233", "ERROR"), ("x", "ERROR")]
)
def test_domains(domain, level):
    assert [finding.level.name for finding in network._domain(domain)] == ([level] if level else [])


@pytest.mark.parametrize("port", ["0", "-1", "65536"])
def test_what_is_no_port_is_refused(port):
    assert CliRunner().invoke(main.app, ["doctor", "--port", port]).exit_code == 2


@pytest.mark.ros
def test_a_message_goes_round_and_the_command_says_so():
    pytest.importorskip("rclpy")
    pytest.importorskip("llm_planner.msg")
    code = "import sys; sys.argv = ['llm-planner', 'doctor', '--json', '--model', 'nonesuch', '--robot', 'ghost']; "
    code += "from llm_planner.cli.main import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env=os.environ.copy())
    assert '"is_well": false' in done.stdout, done.stderr
    assert "round trip between two processes" in done.stdout
    assert "MODEL_NOT_FOUND 501" in done.stdout
    assert "no robot node /ghost" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("missing", ["rclpy", "torch", "mcap", "starlette", "prometheus_client"])
def test_the_doctor_comes_even_where_a_package_is_missing(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import llm_planner.cli.main, llm_planner.doctor.network"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_the_command_tells_what_to_do_in_json(monkeypatch):
    check = lambda: [Finding(check="disk", level=Level.WARNING, text="0.1 GB free", fix="make room")]  # noqa: E731
    monkeypatch.setattr(doctor, "_checks", lambda *_: {"disk": check})
    (finding,) = json.loads(CliRunner().invoke(main.app, ["doctor", "--json"]).stdout)["findings"]
    assert finding == {"check": "disk", "level": "WARNING", "text": "0.1 GB free", "fix": "make room"}
