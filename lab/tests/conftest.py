# SPDX-License-Identifier: Apache-2.0
"""Isolation and markers as in tests/conftest.py: importing it claims a ROS domain for this process."""

from tests.conftest import pytest_collection_modifyitems

__all__ = ["pytest_collection_modifyitems"]
