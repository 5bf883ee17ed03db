"""How the built-in pair was made: texts, tokenizers, training, model card."""
