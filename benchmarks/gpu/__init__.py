"""`make gpu`: check and measure Warren on a GPU by one command, which goes on where the last one stopped.

`plan` names the steps and how long each may take; `runner` runs one in a process of its own; `ledger`
keeps what came of it, line by line; `table` makes the report. What the steps do is in `steps`.
"""
