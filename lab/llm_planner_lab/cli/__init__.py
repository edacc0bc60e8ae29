# SPDX-License-Identifier: Apache-2.0
"""The laboratory's commands."""
