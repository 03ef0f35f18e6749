"""Does reinforcement learning learn? The examples, trained on a CPU, and their curves.

`python -m benchmarks.learning gomoku arithmetic_tiny several_environments` trains each example from
nothing, as `warren up` and `warren train` would (`training`), prints what it started and ended with,
and draws its curve (`drawing`). A run begins with random legal play: SFT teaches the format
alone.
"""
