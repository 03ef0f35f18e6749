"""Boxes in place of the containers of foreign packages: bubblewrap isolates them, and commands run inside.

bubblewrap  the command line of bubblewrap, which a program of `foreign.programs` runs
inside      process 1 of a box: runs the commands that it is asked for
"""
