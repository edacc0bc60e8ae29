# SPDX-License-Identifier: Apache-2.0
"""A campaign of faults against a whole fleet: real processes, a seeded schedule, invariants that must hold."""
