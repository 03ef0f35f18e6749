"""What a cell and a session cost.

`python -m benchmarks.sandbox` prints, for every tier that works here, how long a session takes to
start and a cell to run, and how many cells per second sessions side by side get through. Run it on
a machine that has nothing else to do.
"""
