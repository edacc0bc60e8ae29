# SPDX-License-Identifier: Apache-2.0
"""How far the messages of a fleet go: DDS authenticates no participant, so they stay on this host by default.

``ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST`` would not do: rmw_fastrtps then still listens on every interface, a stranger
that names this host in ``ROS_STATIC_PEERS`` gets in, and it turns shared memory on, whatever
``FASTDDS_BUILTIN_TRANSPORTS`` says. (With shared memory a client that ended uncleanly costs the next one seconds and
most of its feedback.) A profile of Fast DDS does: all sockets are on the loopback interface, UDP is the only transport.
Processes of this host without that profile, such as ``ros2 topic echo`` in another terminal, are found all the same.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

PROFILE = Path(__file__).with_name("this_host.xml")
PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")  # of Fast DDS 2, and 3
RANGE, TRANSPORTS = "ROS_AUTOMATIC_DISCOVERY_RANGE", "FASTDDS_BUILTIN_TRANSPORTS"
OLD_RANGE = "ROS_LOCALHOST_ONLY"  # deprecated, and wins over RANGE


class Network(Enum):
    """Who can talk to a fleet."""

    HOST = "host"
    SUBNET = "subnet"

    @property
    def meaning(self) -> str:
        """One line for the operator who starts a fleet."""
        if self is Network.HOST:
            return "nodes can be reached from this host only (network subnet: from everywhere on the network)"
        return "nodes can be reached by any host on this network, without a password (network host: from here only)"


def environment(network: Network, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of processes whose nodes can be reached from as far as ``network`` says.

    A profile of Fast DDS that the user has set stays, as the user knows better; so does the middleware. Then
    ``ROS_AUTOMATIC_DISCOVERY_RANGE`` has to do.

    Args:
        network: How far.
        given: This process's environment.
    """
    chosen = {name: value for name, value in given.items() if name != OLD_RANGE and value != str(PROFILE)}
    if network is Network.SUBNET:
        return {TRANSPORTS: "UDPv4"} | chosen | {RANGE: "SUBNET"}
    is_fast_dds = chosen.get("RMW_IMPLEMENTATION", "rmw_fastrtps").startswith("rmw_fastrtps")
    if not is_fast_dds or any(chosen.get(name) for name in PROFILE_VARIABLES):
        return {TRANSPORTS: "UDPv4"} | chosen | {RANGE: "LOCALHOST"}
    return chosen | dict.fromkeys(PROFILE_VARIABLES, str(PROFILE)) | {RANGE: "SYSTEM_DEFAULT"}
