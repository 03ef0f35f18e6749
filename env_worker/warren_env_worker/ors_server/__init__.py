"""`warren ors-server`: the environments of this machine, served by the Open Reward Standard (ORS).

command      the command line
routes       from paths to answers; who may ask
streams      calls as server-sent events, found again by their number
sessions     who plays which task, how many at once, and for how long in silence
session      one session: its task, its calls in turn
tools        the tools of an environment, and what a call of one says to it
catalogue    environments, their splits and how many tasks those have
episode      one episode on a host
blocks       what an environment shows, as ORS has it
bodies       what clients send, checked
settings     limits, and how each environment is served
errors       what a client is told
"""
