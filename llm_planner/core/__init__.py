# SPDX-License-Identifier: Apache-2.0
"""What are we talking about: the vocabulary that every other folder shares (standard library only)."""
