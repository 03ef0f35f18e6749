"""What a cell, a session and a comparison of answers cost.

`python -m benchmarks.sandbox` prints, for every tier that works here, how long a session takes to
start and a cell to run, how many cells per second sessions side by side get through, and how many
answers per second the verifier compares. Run it on a machine that has nothing else to do.
"""
