# SPDX-License-Identifier: Apache-2.0
"""What a dashboard may be told by any client: texts that look like goal events and views, and are not."""

import json

from hypothesis import strategies as st

from tests.cli.test_top_screen import make_goal, make_view
from tests.monitoring.test_robot_view import make_view as make_robot
from tests.monitoring.test_rows import accepted, finished, report, segment
from tests.ros.hostile import DIGITS, texts

START = (
    {},
    accepted(1.0),
    segment(2.0),
    report(2.5, "started"),
    report(3.0, "succeeded", duration_s=0.5),
    finished(4.0, error_code=300),
    json.loads(make_view(make_goal("drone_1")).to_json()),
    json.loads(make_robot().to_json()),
)
NAMES = tuple({name for line in START for name in line})


def lines():
    """Returns a strategy of texts: goal events and views with fields that are wrong in any way, and what is no JSON."""
    values = st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.just(int(DIGITS)) | texts("segment", "finished"),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=5,
    )
    plain = st.integers(0, 3) | st.sampled_from(("accepted", "segment", "report", "finished", "started", "failed", "g"))
    fields = st.dictionaries(st.sampled_from(NAMES), plain | values, max_size=4)
    return st.builds(lambda start, odd: json.dumps(start | odd), st.sampled_from(START), fields) | texts()
