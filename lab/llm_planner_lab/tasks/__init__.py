# SPDX-License-Identifier: Apache-2.0
"""What does success mean: instruction families with their worlds, reference plans and goal tests."""
