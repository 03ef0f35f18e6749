"""Tasksets and environments of verifiers, in the virtual environments `verifiers` and `verifiers_v0`."""
