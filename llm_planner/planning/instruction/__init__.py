# SPDX-License-Identifier: Apache-2.0
"""What do the words of a person say? What acts at once, what of a scene they speak of, and what they say of a plan."""
