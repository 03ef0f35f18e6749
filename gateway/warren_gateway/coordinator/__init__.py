"""The coordinator drives runs: episodes out, trajectories in, updates out, until done.

`actor` does the waiting, reading and committing; `logic` and the modules below it decide, without
any input or output, so that a decision can be tested as a function. A decision is a `Change`, and a
change is one transaction.
"""
