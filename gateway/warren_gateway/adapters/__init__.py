"""LoRA adapters that users bring: uploaded and checked, then sampled from, served and trained on."""
