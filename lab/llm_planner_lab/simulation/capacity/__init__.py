# SPDX-License-Identifier: Apache-2.0
"""How many servers does a fleet need? Planned from models of throughput and robots, checked in virtual time."""
