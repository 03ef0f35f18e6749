"""LoRA adapters that users bring: what their two files may hold."""
