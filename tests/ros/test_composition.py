# SPDX-License-Identifier: Apache-2.0
"""Which robots of a fleet are real, and what becomes of processes that end."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import rclpy
from rclpy.context import Context
from rclpy.node import Node

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.robot_view import parse_home
from llm_planner.ros.composition import OBSERVERS, Composition, Fleet, World, parameter_words
from llm_planner.ros.network import Network, environment
from llm_planner.ros.process import MAX_RESTARTS, RESTART_DELAY_S, RESTARTS_PER_S
from llm_planner.sim.physics.world_file import load_world_file
from tests.ros.nodes import wait_until

pytestmark = pytest.mark.ros


def test_the_first_drones_fly_the_tellos_and_the_rest_is_kinematic():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",)).commands()
    assert {'driver:="tello"', 'address:="127.0.0.11"', "take_off:=true"} <= set(commands["drone_1"])
    assert not any("driver" in word for name in ("drone_2", "arm_1") for word in commands[name])


def test_only_an_emulated_drone_takes_worlds():
    commands = Composition(drones=3, tellos=("127.0.0.11", "192.168.10.1", "tello.local")).commands()
    allowed = {name for name, words in commands.items() if "allow_world:=true" in words}
    assert allowed == {"drone_1"}


def test_a_real_drone_waits_on_the_floor():
    commands = Composition(drones=3, tellos=("127.0.0.11", "192.168.10.1")).commands()
    assert [f"take_off:={flies}" in commands[f"drone_{n}"] for n, flies in ((1, "true"), (2, "false"))] == [True, True]


def test_robots_keep_to_the_limits_that_their_planner_knows():
    fleet = Composition(drones=2, arms=1, tellos=("127.0.0.11",), world=World("house"), robot_models=("mine", "/ours"))
    models = f'robot_models:=["{Path("mine").absolute()}", "/ours"]'
    assert all(models in words for name, words in fleet.commands().items() if name != "planner")
    assert not any("robot_models" in word for words in Composition().commands().values() for word in words)


def test_an_arm_never_flies():
    with pytest.raises(PlannerError, match="2 Tellos for 1 drone; fly them with --drones 2") as caught:
        Composition(drones=1, arms=1, tellos=("127.0.0.11", "127.0.0.12"))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    commands = Composition(drones=1, arms=1, tellos=("127.0.0.11",)).commands()
    assert not any("driver" in word for word in commands["arm_1"])


def test_who_is_no_real_robot_has_a_body_in_the_world():
    commands = Composition(drones=2, arms=1, tellos=("127.0.0.11",), world=World("house", 8871)).commands()
    robots = 'robots:=["drone_2:tello", "arm_1:indy7"]'
    assert {robots, 'world:="house"', "port:=8871"} <= set(commands["world"])
    assert {'driver:="mujoco"', 'address:="127.0.0.1:8871"'} <= set(commands["arm_1"])
    assert 'driver:="tello"' in commands["drone_1"]
    assert "world" not in Composition(drones=2).commands()


def homes(fleet):
    return {
        n: json.loads(w.partition(":=")[2])
        for n, words in fleet.commands().items()
        for w in words
        if w.startswith("home:=")
    }


def test_who_lives_in_a_world_with_places_knows_its_home():
    pytest.importorskip("mujoco")
    fleet = Composition(drones=3, arms=1, tellos=("127.0.0.11",), world=World("house", 8871))
    places = load_world_file("house")
    expected = {"drone_2": places.drones[0], "drone_3": places.drones[1], "arm_1": places.arms[0]}
    assert homes(fleet) == {name: f"{p.x_m},{p.y_m},{p.yaw_deg}" for name, p in expected.items()}
    assert all(parse_home(text) is not None for text in homes(fleet).values())
    assert not homes(Composition(drones=2, world=World("", 8871)))
    assert not homes(Composition(drones=2))


def test_observers_are_processes_of_their_own(tmp_path):
    commands = Composition(drones=1, arms=0, dashboard_port=8479, record=tmp_path / "run.mcap").commands()
    assert "port:=8479" in commands["dashboard"]
    assert f'path:="{tmp_path}/run.mcap"' in commands["recorder"]
    assert commands.keys() - OBSERVERS == {"planner", "drone_1"}


def test_kinematic_robots_share_processes_and_others_have_their_own():
    fleet = Composition(drones=4, arms=2, tellos=("127.0.0.11",), robots_per_process=3)
    commands = fleet.commands()
    assert list(commands) == ["planner", "drone_1", "robots_1", "robots_2"]
    words = commands["robots_1"]
    assert words[2:7] == ["llm_planner.ros.robot_group", "drone_2", "drone_3", "drone_4", "--ros-args"]
    assert {'drone_3:robot_model:="tello"', "drone_3:seed:=2", "drone_4:seed:=3"} <= set(words)
    assert {'arm_1:robot_model:="indy7"', 'arm_2:robot_model:="indy7"'} <= set(commands["robots_2"])
    assert fleet.restart_commands().keys() == {"planner", "robots_1", "robots_2"}


def test_robots_with_bodies_share_no_process():
    fleet = Composition(drones=2, arms=0, world=World("", 8871), robots_per_process=10)
    assert fleet.commands().keys() == {"planner", "world", "drone_1", "drone_2"}


# What ROS reads


VALUES = [
    "8",
    "true",
    "1e3",
    "~",
    "",
    "Flight #3.mcap",
    "it's # x",
    'a\\b "c"\n',
    "mod:Class",
    "über 😀",
    "a\x7fb\x80c\x85d\u2028e\ufefff\ufffeg\uffff",
    ["a\x7f", "\x85"],
    ["m,z", "8"],
    8,
    2.0,
]


def test_ros_reads_values_as_they_were_given():
    given = {f"of.it_{index}": value for index, value in enumerate(VALUES)}
    context = Context()
    rclpy.init(args=["--ros-args", *parameter_words(given)], context=context)
    try:
        node = Node("read", context=context, automatically_declare_parameters_from_overrides=True)
        read = {name: node.get_parameter(name).value for name in given}
        node.destroy_node()
    finally:
        context.shutdown()
    assert read == given
    assert [type(value) for value in read.values()] == [type(value) for value in VALUES]


@pytest.mark.parametrize("value", ["flur\udce9.mcap", ["m", "\udce9"]])
def test_a_value_that_is_not_utf_8_is_refused(value):
    with pytest.raises(PlannerError, match=r"path is not valid UTF-8: .*udce9") as refused:
        parameter_words({"path": value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_names_and_files_are_quoted_whatever_they_hold(tmp_path):
    fleet = Composition(
        planner={"robot_models": [], "engine.model": "8", "metrics_port": 9400}, record=tmp_path / "Flight #3.mcap"
    )
    commands = fleet.commands()
    assert commands["planner"][-4:] == ["-p", 'engine.model:="8"', "-p", "metrics_port:=9400"]
    assert commands["recorder"][-1] == f'path:="{tmp_path}/Flight #3.mcap"'


# Processes that end

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def exits(status):
    return [sys.executable, "-c", f"raise SystemExit({status})"]


class Tended:
    """A fleet in whose time nothing passes but what a test says."""

    def __init__(self, commands, restart_commands):
        self.fleet = Fleet(commands, restart_commands=restart_commands)
        self.fleet.start()
        self.now_s = 0.0

    def kill(self, name):
        os.kill(self.fleet.pids[name], signal.SIGKILL)
        return self.ends(name)

    def ends(self, name):
        """Returns what is said when a process has ended."""
        wait_until(lambda: self.fleet._processes[name].poll() is not None)
        return self.fleet.tend(self.now_s)

    def wait(self, seconds):
        self.now_s += seconds
        return self.fleet.tend(self.now_s)


@pytest.fixture
def tend():
    started = []

    def start(commands, restart_commands=None):
        started.append(Tended(commands, commands if restart_commands is None else restart_commands))
        return started[-1]

    yield start
    for tended in started:
        tended.fleet.stop()


def test_a_process_that_is_killed_starts_again_alone(tend):
    tended = tend({"planner": SLEEP, "drone_1": SLEEP, "drone_2": SLEEP})
    before = tended.fleet.pids
    assert tended.fleet.tend(0.0) == []
    assert tended.kill("drone_1") == ["drone_1 ended with status -9 and is started again; the others go on"]
    assert tended.fleet.tend(0.1) == []
    assert tended.wait(RESTART_DELAY_S) == []
    assert tended.fleet.first_ended() is None
    changed = {name for name, pid in tended.fleet.pids.items() if pid != before[name]}
    assert changed == {"drone_1"}
    (line,) = tended.kill("planner")
    assert "robots keep safe meanwhile" in line
    tended.wait(RESTART_DELAY_S)
    assert tended.fleet.first_ended() is None


def test_a_robot_that_ends_again_and_again_is_given_up_and_the_others_go_on(tend):
    tended = tend({"planner": SLEEP, "drone_1": exits(3)})
    for _ in range(MAX_RESTARTS):
        assert "started again" in tended.ends("drone_1")[0]
        tended.wait(RESTART_DELAY_S)
    assert tended.ends("drone_1") == ["drone_1 ended with status 3; the fleet goes on without it"]
    assert tended.wait(1000.0) == []


def test_the_rate_is_bounded_not_the_number(tend):
    tended = tend({"planner": exits(3)})
    for _ in range(3 * MAX_RESTARTS):
        assert "started again" in tended.ends("planner")[0]
        tended.wait(RESTARTS_PER_S)


def test_a_planner_that_cannot_run_stops_the_fleet(tend):
    with pytest.raises(PlannerError, match="planner ended with status 1") as ended:
        tend({"planner": exits(1)}).ends("planner")
    assert ended.value.code is ErrorCode.ENGINE_FAILED
    tended = tend({"planner": exits(3)})
    for _ in range(MAX_RESTARTS):
        tended.ends("planner")
        tended.wait(RESTART_DELAY_S)
    with pytest.raises(PlannerError):
        tended.ends("planner")


@pytest.mark.parametrize(
    ("parameter", "code", "part"),
    [
        ("startup_check_s:=-1.0", ErrorCode.INVALID_CONFIG, "startup_check_s"),  # of the node
        ("engine.model:=nix", ErrorCode.MODEL_NOT_FOUND, "'nix' is neither a directory nor"),  # of what it loads
    ],
)
def test_why_a_planner_cannot_run_comes_through(tend, parameter, code, part):
    planner = [sys.executable, "-m", "llm_planner.ros.planner_node", "--ros-args", "-p", parameter]
    fleet = tend({"planner": planner}).fleet
    fleet.wait()
    with pytest.raises(PlannerError, match=f"planner ended with status 1: .*{part}") as ended:
        fleet.tend(0.0)
    assert ended.value.code is code


def test_what_a_process_said_before_is_not_why_it_ends_now(tend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    says_once = """if True:
        import os
        if not os.path.exists("said"):
            open("said", "w").close()
            open(os.environ["LLM_PLANNER_LAST_WORDS"], "w").write('[505, "before"]')
            raise SystemExit(2)
        raise SystemExit(0)
    """
    tended = tend({"planner": [sys.executable, "-c", says_once]})
    tended.ends("planner")
    assert tended.fleet.last_words("planner").message == "before"
    tended.wait(RESTART_DELAY_S)
    with pytest.raises(PlannerError, match=r"planner ended with status 0 \[ENGINE_FAILED 500\]"):
        tended.ends("planner")


def test_what_ends_in_order_or_may_not_start_again_stays_away(tend):
    tended = tend({"drone_1": exits(0), "drone_2": exits(1), "drone_3": exits(3)}, {"drone_1": SLEEP, "drone_2": SLEEP})
    lines = {line for name in ("drone_1", "drone_2", "drone_3") for line in tended.ends(name)}
    assert lines == {
        f"drone_{n} ended with status {s}; the fleet goes on without it" for n, s in ((1, 0), (2, 1), (3, 3))
    }


def test_nothing_starts_again_that_would_fly_off_or_do_again_what_it_did(tmp_path):
    fleet = Composition(
        drones=2,
        arms=1,
        tellos=("127.0.0.11",),
        scenario=tmp_path / "s.yaml",
        dashboard_port=8479,
        record=tmp_path / "run.mcap",
    )
    again = fleet.restart_commands()
    assert again.keys() == {"planner", "drone_2", "arm_1"}
    assert not any("scenario" in word for command in again.values() for word in command)
    assert again["planner"] == fleet.commands()["planner"]


@pytest.mark.parametrize("network", Network)
def test_processes_get_the_environment_of_their_network(tmp_path, network):
    names = [name for name in os.environ | environment(network, os.environ) if name.startswith(("ROS_", "FAST"))]
    show = f"import os; print({{n: os.environ.get(n) for n in {names}}})"
    with Fleet({"shown": [sys.executable, "-c", show]}, log_dir=tmp_path, network=network) as fleet:
        fleet.wait()
    expected = environment(network, os.environ)
    assert eval((tmp_path / "shown.log").read_text()) == {name: expected.get(name) for name in names}
