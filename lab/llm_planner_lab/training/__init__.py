# SPDX-License-Identifier: Apache-2.0
"""How is the bundled model made: tokenizer, data, trainer, evaluation, model card."""
