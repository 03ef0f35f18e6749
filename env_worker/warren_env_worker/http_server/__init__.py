"""`warren env serve`: an environment behind our HTTP protocol, for any trainer (docs/environments-http.md).

bodies      what requests bring
description what is said of the environment before anything is played
episodes    which episodes are live, and what each request was answered
routes      from paths to answers, and who may ask
service     all of it, listening
command     the command
"""
