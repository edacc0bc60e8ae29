# SPDX-License-Identifier: Apache-2.0
"""The parameters of the planner node that are no settings of a planner."""

from dataclasses import dataclass

from llm_planner.core.config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What only the node needs, besides the planner's own configuration."""

    autostart: bool = setting(True, "Configure and activate without being told by a lifecycle manager.")
    startup_check_s: float = setting(
        1.0, "How long to look for another planner of this name before activating.", minimum=0.0, maximum=60.0
    )
    client_timeout_s: float = setting(
        5.0, "A client whose heartbeats stop for this long is gone, and its goal ends.", minimum=3.0, maximum=3600.0
    )
    result_memory_s: float = setting(
        60.0,
        "How long ~/get_segments knows a finished goal's segments and end.",
        minimum=1.0,
        maximum=3600.0,
    )
    metrics_port: int = setting(0, "TCP port of /metrics for Prometheus; 0 for none.", minimum=0, maximum=65535)
    metrics_host: str = setting("127.0.0.1", "Address that /metrics listens on; 0.0.0.0 shows it to the network.")
