"""Tasks of AndroidWorld, on a pool of its docker servers, each of which has one emulator.

environment  the environment class: what the policy is shown, and what its words do
actions      what the policy may do, checked before any device hears of it
screen       pixels of a device as a picture, and places in the one as places on the other
episode      one task on one server, begun and played anew on another where that was lost
slots        which server of the pool is free, and which ones are left alone for a while
server       requests to one server, and what no good answer means
"""
