# SPDX-License-Identifier: Apache-2.0
"""The evaluation of TimeBill, section 6, on the planner's own engine."""
