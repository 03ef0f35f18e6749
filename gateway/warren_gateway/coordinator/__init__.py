"""The coordinator drives runs: episodes out, trajectories in, updates out, until done.

`run_coordinator` does the waiting, reading and committing; `decisions` and what is below it decide, without
any input or output, so that a decision can be tested as a function of the state. What a decision does
is a `Change`, and a change is one transaction. Imports go one way, and import-linter holds it: coordinator,
decisions, stages, notices, lease, learning, replaying, rollouts, state.
"""
