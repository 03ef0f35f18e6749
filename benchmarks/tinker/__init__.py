"""Loops of Tinker's SDK against `warren up`: steps and samples per second, and what of it the gateway costs."""
