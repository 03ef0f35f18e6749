"""Configs as text: YAML, overrides, shorthand, and errors that a person can act on."""
