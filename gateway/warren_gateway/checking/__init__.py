"""Configs that are held against what is there, and not submitted."""
