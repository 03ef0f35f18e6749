"""What runs inside a sandbox: nothing but the standard library, on any Python from 3.8 on.

supervisor   process 1: takes cells, holds them to their limits, sweeps up after them
session      runs cells, each in a fork of itself that becomes the session when it ends well
tree         which processes there are, how much they use, and killing them
output       what is kept of what a cell prints
confinement  limits, and for the Landlock tier the isolation

Only the supervisor is trusted. It never runs a cell's code, can't be signalled, traced or read by
those who do, and talks to the host over a socket that no other process has.
"""
