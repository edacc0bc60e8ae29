# SPDX-License-Identifier: Apache-2.0
"""Tokenizer: names are the same tokens in prompt and plan."""

from hypothesis import given, settings
from hypothesis import strategies as st


def tokens(tokenizer, text):
    return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]


def test_a_name_has_the_same_tokens_wherever_it_stands(tokenizer):
    name = tokens(tokenizer, "qorvex")
    for text in ("look for the qorvex.", "g(qorvex);", "red_qorvex_3, cup", "'qorvex'"):
        inside = tokens(tokenizer, text)
        assert any(inside[start : start + len(name)] == name for start in range(len(inside)))


def test_spaces_and_underscores_stand_alone(tokenizer):
    assert [t for t in tokens(tokenizer, "red box") if t != " "] == [
        t for t in tokens(tokenizer, "red_box") if t != "_"
    ]


def test_digits_come_one_by_one(tokenizer):
    assert tokens(tokenizer, "mf(250);") == [*tokens(tokenizer, "mf("), "2", "5", "0", ");"]


def test_a_statement_ends_with_a_token(tokenizer):
    for plan in ("mf(50);tc(90);", "l('hi');h();", "?iv(cat){g(cat);}h();"):
        text = ""
        for token in tokens(tokenizer, plan):
            assert ";" not in token[:-1]
            text += token
        assert text == plan


@settings(deadline=None, max_examples=200)
@given(st.text())
def test_any_text_comes_back_but_for_spaces(tokenizer, text):
    """They cost tokens and tell a small model nothing."""
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text.replace(" ", "")


def test_split_prompts_encode_as_whole_ones(tokenizer):
    static, dynamic = "robot tello\n", "scene: cat\ntask: go\nplan:\n"
    parts = tokenizer.encode(static, add_special_tokens=False) + tokenizer.encode(dynamic, add_special_tokens=False)
    assert parts == tokenizer.encode(static + dynamic, add_special_tokens=False)
