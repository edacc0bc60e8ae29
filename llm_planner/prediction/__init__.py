# SPDX-License-Identifier: Apache-2.0
"""How long will it take: what an engine needs for a step, as data."""
