"""Episodes that are played by a loop of the user's own, wherever that runs.

sockets    where both sides connect
messages   what an env worker's process says of an episode, and what it is answered
hosted     the environment that offers its episodes instead of playing them
episode    one that was taken: where its model is, and how it ends
taking     takes them one after the other, and hosts the environment for it
"""
