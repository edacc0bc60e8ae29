# SPDX-License-Identifier: Apache-2.0
"""What a user runs instead of hardware: robots in virtual worlds, with bodies or without, or emulated."""
