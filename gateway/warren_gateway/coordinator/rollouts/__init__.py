"""Rollouts: from the right to start a group to a group that is complete, failed or dropped."""
