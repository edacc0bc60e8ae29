# SPDX-License-Identifier: Apache-2.0
"""The same loop in virtual time: traces, simulated engine, simulated robots."""
