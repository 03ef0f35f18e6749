"""What the coordinator of one run knows, split by who writes it.

Nothing here decides. A part is written by one folder (`rollouts`, `learning`, `lease`) or module
(`waiting`, `run_coordinator`), so whoever looks for a write knows where to look.
"""
