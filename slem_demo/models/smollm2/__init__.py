"""How the draft for SmolLM2 is distilled: `python -m slem_demo.models.smollm2`."""
