# SPDX-License-Identifier: Apache-2.0
"""Is this installation well? checks that end in time, and how to fix what they find."""
