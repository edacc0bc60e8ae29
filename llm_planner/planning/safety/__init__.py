# SPDX-License-Identifier: Apache-2.0
"""May a robot do it, whatever was asked? The gate: types, limits, the space in which it may end, and harm."""
