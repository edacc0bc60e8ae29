# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

from llm_planner.core.garbage import without_collections


def test_collections_are_off_within_and_as_before_behind():
    assert gc.isenabled()
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_turns_collections_on_again():
    with pytest.raises(ValueError, match="broken"), without_collections():
        raise ValueError("broken")
    assert gc.isenabled()
