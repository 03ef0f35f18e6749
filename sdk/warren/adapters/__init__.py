"""LoRA adapters of yours: checked, uploaded, found again."""
