"""Boxes for the containers of foreign packages: bubblewrap's walls, and commands that are run within.

walls    what is found within, as a command line of bubblewrap that a program of `foreign.programs` runs
inside   process 1 of a box: runs the commands that it is asked for
"""
