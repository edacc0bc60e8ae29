# SPDX-License-Identifier: Apache-2.0
"""The evaluation of A_min, section 6, and ours: experiments, theorems, figures and the page."""
