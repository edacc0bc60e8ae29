# SPDX-License-Identifier: Apache-2.0
"""Other ways to run a step than our own engine: servers and engines of others, behind the same seam."""
