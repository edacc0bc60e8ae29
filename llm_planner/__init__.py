# SPDX-License-Identifier: Apache-2.0
"""llm_planner: one open-weight LLM plans for a whole fleet of robots, in time.

The interface build (rosidl) creates ``llm_planner.msg``, ``llm_planner.srv`` and ``llm_planner.action``
in another directory of the same name; extending the package path merges them with this source.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
__version__ = "0.3.0"
