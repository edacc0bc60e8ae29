# SPDX-License-Identifier: Apache-2.0
"""What do we ask, and may a robot see the answer: prompt, grammar and plan session; ``instruction``, ``safety``."""
