# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.prediction.profile import Chunk, find_profile, load_profile

PROFILE = find_profile("llama3-8b-rtx4090")
NAMES = sorted(path.stem for path in (share_dir() / "profiles").glob("*.yaml"))


def document():
    return yaml.safe_load((share_dir() / "profiles" / "llama3-8b-rtx4090.yaml").read_text())


def written(tmp_path, content):
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(content) if not isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_shipped_profiles_load_under_their_file_name(name):
    assert find_profile(name).name == name


def test_the_papers_measurements_come_out():
    assert PROFILE.step_s([Chunk(2884, 0)]) == pytest.approx(0.32845, rel=0.001)
    assert PROFILE.step_s([Chunk(1170, 0)]) == pytest.approx(0.13331, rel=0.001)
    assert PROFILE.step_s([Chunk(1, 2884)]) == pytest.approx(0.02175, rel=0.002)
    assert PROFILE.resume.time_s(1300) == pytest.approx(0.0095, rel=0.001)


chunks = st.lists(st.builds(Chunk, st.integers(1, 4000), st.integers(0, 4000)), max_size=20)


@given(chunks, chunks)
def test_more_work_never_takes_less_time(some, more):
    assert 0.0 <= PROFILE.step_s(some) <= PROFILE.step_s(some + more)


def test_a_few_tokens_of_one_sequence_are_rows_of_the_batch():
    assert PROFILE.step_s([Chunk(4, 100)]) == pytest.approx(PROFILE.step_s([Chunk(1, 25)] * 4))
    assert PROFILE.step_s([Chunk(17, 0)]) == pytest.approx(max(PROFILE.decode.base_s.value, PROFILE.prefill_s(17)))


def test_an_engine_that_hides_no_prompts_computes_one_after_the_other():
    separate = replace(PROFILE, hides_prompts=False)
    prompt, decodes = [Chunk(500, 0)], [Chunk(1, 100)] * 4
    assert separate.step_s(prompt) == pytest.approx(separate.prefill_s(500))
    assert separate.step_s(decodes) == PROFILE.step_s(decodes)
    assert separate.step_s(prompt + decodes) == pytest.approx(separate.step_s(prompt) + separate.step_s(decodes))
    assert PROFILE.step_s(prompt + decodes) < separate.step_s(prompt + decodes)


@given(st.integers(2, 2000), st.integers(2, 2000))
def test_a_prompt_in_chunks_costs_one_constant_more(first, second):
    quadratic = replace(PROFILE, prefill=replace(PROFILE.prefill, a_s_per_token2=PROFILE.resume.per_token_s))
    parts = quadratic.prefill_s(first) + quadratic.prefill_s(second, first)
    assert parts == pytest.approx(quadratic.prefill_s(first + second) + PROFILE.prefill.c_s.value)


def _without(content):
    del content["decode"]["base_s"]


def _negative(content):
    content["prefill"]["b_s_per_token"]["value"] = -1e-4


def _zero(content):
    content["decode"]["base_s"]["value"] = 0.0


def _nan(content):
    content["resume"]["per_token_s"]["value"] = float("nan")


def _unsourced(content):
    del content["offload"]["constant_s"]["source"]


def _unknown(content):
    content["decode"]["per_batch_s"] = 1


def _version(content):
    content["schema_version"] = 2


def _blocks(content):
    content["num_kv_blocks"] = 0


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (_without, "decode.base_s"),
        (_negative, "prefill.b_s_per_token"),
        (_zero, "decode"),
        (_nan, "resume.per_token_s"),
        (_unsourced, "offload.constant_s.source"),
        (_unknown, "decode.per_batch_s"),
        (_version, "schema_version"),
        (_blocks, "sizes"),
    ],
)
def test_a_bad_coefficient_is_refused_with_its_path(tmp_path, spoil, named):
    content = document()
    spoil(content)
    path = written(tmp_path, content)
    with pytest.raises(PlannerError) as caught:
        load_profile(path)
    assert caught.value.code is ErrorCode.INVALID_FILE
    assert named in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ["", "[1, 2]", "a: [", "just text"])
def test_what_is_no_profile_is_refused(tmp_path, content):
    with pytest.raises(PlannerError, match="profile"):
        load_profile(written(tmp_path, content))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PlannerError, match="llama3-8b-rtx4090"):
        find_profile("gpt-9")
