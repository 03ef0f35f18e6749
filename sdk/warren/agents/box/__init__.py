"""The box of an agent that is a program: it isolates the program and limits what it uses of the machine.

bubblewrap  the command line of bubblewrap: what the program finds within
inside      process 1 of a box: starts the program, holds it to its limits, and leaves nothing of it
program     the worker's end: starts a box, lets it reach the endpoint, hears how the program ended
offering    whether a class may have the box that it asks for, and whether boxes work here

The program reaches the endpoint without a bridge: process 1 listens in the box's network, at the address that the
program is told, and hands that socket out to the endpoint, which answers there as well.
"""
