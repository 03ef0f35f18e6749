"""Base models that users bring: uploaded and checked, then loaded by GPU workers that may."""
