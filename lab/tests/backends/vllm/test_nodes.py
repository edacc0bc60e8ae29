# SPDX-License-Identifier: Apache-2.0
"""Stages on two and three machines (network namespaces, slow links) under our scheduling. Opt-in: root, iproute2."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="needs .venv-vllm: make test-vllm")
if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
    pytest.skip("network namespaces need root and iproute2", allow_module_level=True)

from llm_planner_lab.bench.vllm_nodes import NodesBench, namespaces, workers, write_config

pytestmark = pytest.mark.timeout(3600)  # three starts of vLLM at the same time, and a second time after the loss

BENCH = NodesBench(rates_mbit=(100.0,), num_requests=4, num_tokens=6)
ROOT = Path(__file__).resolve().parents[4]
HEAD = """
import json, os, signal, sys, threading, time
from pathlib import Path
from functools import partial
from llm_planner import assembly
from llm_planner.configuration import load_config
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner.serving.child_link import Timeouts
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook

INSTRUCTION = "take off, fly 1 m forward, turn left by 90 degrees, fly 50 cm up and take a picture"


def post(event):
    if isinstance(event, SegmentReady):
        texts.setdefault(event.request_id, []).append(event.segment.text)
        report = SegmentReport(request_id=event.request_id, index=event.segment.index, status=ReportStatus.SUCCEEDED)
        threading.Thread(target=server.report, args=(report,)).start()
    elif isinstance(event, Finished):
        ends[event.result.request_id] = event.result


def ask(name):
    server.submit(PlanRequest(request_id=name, robot_id=name, robot_model="tello", instruction=INSTRUCTION))


def wait(name):
    while name not in ends:
        time.sleep(0.05)


if __name__ == "__main__":
    texts, ends = {}, {}
    # All machines share this one's processor: a step may last longer than one that hangs elsewhere.
    timeouts = Timeouts(start_timeout_s=1500.0, least_hang_timeout_s=60.0)
    assembly.ChildServer = partial(assembly.ChildServer, timeouts=timeouts)
    server = assembly.build_server(load_config(Path(sys.argv[1]), {}), GoalBook(post=post))
    server.start()
    assert server.wait_ready(1500.0)
    ask("before")
    wait("before")
    print("ready", flush=True)
    ask("killed")
    while len(texts.get("killed", ())) < 1:
        time.sleep(0.001)
    os.kill(int(sys.stdin.readline()), signal.SIGKILL)  # a worker of the other machine
    wait("killed")
    server.close()
    print(json.dumps({
        "plans": {name: [result.error_code.name, result.plan] for name, result in ends.items()},
        "segments": {name: "".join(parts) for name, parts in texts.items()},
        "num_restarts": server.status.num_restarts,
    }), flush=True)
"""


def worker_of(name):
    """The process of vLLM that holds a stage in a namespace."""
    pids = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True).stdout.split()
    return next(pid for pid in pids if "VLLM" in Path(f"/proc/{pid}/comm").read_text())


@pytest.mark.parametrize("num_nodes", [2, 3])
def test_goals_go_on_when_a_machine_loses_its_worker(tmp_path, num_nodes):
    (script := tmp_path / "head.py").write_text(HEAD)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'lab'}"}
    config = write_config(tmp_path, BENCH, num_nodes)
    log = tmp_path / "head.log"
    with namespaces(num_nodes, 100.0) as names, workers(config, names), log.open("w") as errors:
        command = ["ip", "netns", "exec", names[0], sys.executable, str(script), str(config)]
        with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, stderr=errors, text=True) as head:
            try:
                assert any(line == "ready\n" for line in iter(head.stdout.readline, "")), log.read_text()[-4000:]
                head.stdin.write(f"{worker_of(names[-1])}\n")
                head.stdin.flush()
                document = json.loads(head.stdout.readline())
            finally:
                head.send_signal(signal.SIGKILL)
    code, plan = document["plans"]["before"]
    assert code == "NONE"
    assert document["plans"]["killed"] == ["NONE", plan]
    assert document["segments"] == {"before": plan, "killed": plan}
    assert document["num_restarts"] == 1
