"""Loops of Tinker's SDK against Warren and its peers: steps and samples per second, and what of it the gateway costs."""
