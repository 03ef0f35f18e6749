"""The start of several ranks, on one machine or more: torchrun's agent, and where its ranks meet."""
