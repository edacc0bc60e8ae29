"""How is the bundled model made: tokenizer, data, trainer, evaluation, model card."""
