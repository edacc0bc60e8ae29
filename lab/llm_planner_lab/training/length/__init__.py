# SPDX-License-Identifier: Apache-2.0
"""How is a length predictor made? Prompts, the lengths that the target model really produces, training, baselines."""
