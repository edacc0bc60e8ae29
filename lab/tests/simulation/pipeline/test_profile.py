# SPDX-License-Identifier: Apache-2.0
import pytest
import yaml

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, PIPELINES, find_pipeline


def document():
    return yaml.safe_load((PIPELINES / f"{DEFAULT_PIPELINE}.yaml").read_text())


def load(tmp_path, document):
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump(document))
    return find_pipeline(str(path))


@pytest.mark.parametrize("name", sorted(path.stem for path in PIPELINES.glob("*.yaml")))
def test_shipped_profiles_load_under_their_file_name(name):
    assert find_pipeline(name).name == name


def test_not_more_than_six_numbers_are_fitted():
    assert str(document()).count("'fitted'") <= 6


def test_more_stages_have_fewer_layers_and_more_room():
    four = find_pipeline(DEFAULT_PIPELINE)
    eight = four.with_stages(8)
    assert eight.times.compute_base_s == pytest.approx(four.times.compute_base_s / 2)
    assert eight.num_kv_tokens > 2 * four.num_kv_tokens


def test_twice_the_bandwidth_takes_half_the_time_of_a_token_and_the_same_latency():
    slow = find_pipeline(DEFAULT_PIPELINE)
    fast = slow.with_bandwidth(200.0)
    assert fast.times.link_per_token_s == pytest.approx(slow.times.link_per_token_s / 2)
    assert fast.times.link_latency_s == slow.times.link_latency_s


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_stages": 41}, "only 40 layers"),
        ({"num_stages": 0}, "num_stages must be > 0"),
        ({"num_stages": 2}, "no room for KV"),
        ({"max_num_batched_tokens": 0}, "budget of 0"),
        ({"colour": "blue"}, "colour"),
        ({"link": {}}, "link.bandwidth_mbps"),
    ],
)
def test_a_broken_profile_is_refused_with_what_is_wrong(tmp_path, change, message):
    with pytest.raises(PlannerError, match=message) as error:
        load(tmp_path, document() | change)
    assert error.value.code is ErrorCode.INVALID_FILE


@pytest.mark.parametrize("text", ["", "[1, 2", "- 1", "\x00"])
def test_a_file_that_is_no_profile_is_refused(tmp_path, text):
    path = tmp_path / "profile.yaml"
    path.write_text(text)
    with pytest.raises(PlannerError, match="pipeline profile"):
        find_pipeline(str(path))


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(PlannerError, match=DEFAULT_PIPELINE):
        find_pipeline("nope")


def test_stages_that_do_not_work_are_refused():
    with pytest.raises(PlannerError, match="only 40 layers"):
        find_pipeline(DEFAULT_PIPELINE).with_stages(50)
