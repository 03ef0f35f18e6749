"""Tinker's protocol, as a thin translation onto Warren's own primitives.

paths           names of models and of what is kept of them
sessions        sessions and samplers of clients, in the store
searching       sessions by what they carry
creating        models, made by the names that clients give them
runs            models by these names, and who may see them
training        what a client asks of a trainer -> ops
tensors         what of it are tensors -> arrays
results         what came of ops -> the protocol's
sampling        what a client asks of a sampler -> questions; answers -> the protocol's
asked_prompts   what a sample goes on from: tokens and images
chosen_tokens   tokens whose logprobs are asked for beside those of a prompt
samples         those that are asked for, until they are fetched
downloads       URLs that need no key
tar             files of a folder as one
accounts        what users have used and stored
tracing         timelines of sessions
parts           all of it, as the routes take it
wire            the protobuf messages
"""
