"""Agents as they are: any program that calls a model by an address and a key plays an episode.

environment, command   what users subclass: a function that is an agent, or a command line
box                    isolates a program and limits what it uses
subreaper, output      leaving nothing of a program without a box; what a program prints
live, history          a live agent's calls of the model, and where each stands in its episode
conversation           what is asked and answered, in no dialect
endpoint               the HTTP server that agents call
other_models           models besides the policy; forwarding passes calls of them on
dialects               OpenAI chat completions and Responses, Anthropic Messages, tokens in and out

The answer to a call is the episode's next turn: it goes through the same queues, to the same samplers, and is
recorded token by token as it was sampled.
"""
