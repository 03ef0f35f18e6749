"""Commands of the panel Access."""
