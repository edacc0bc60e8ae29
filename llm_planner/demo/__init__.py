# SPDX-License-Identifier: Apache-2.0
"""The demo: what it flies, and whether it worked."""
