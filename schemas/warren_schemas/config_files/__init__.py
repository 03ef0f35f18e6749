"""Config files: YAML and overrides on top of it, and what explains their keys to people and editors."""
