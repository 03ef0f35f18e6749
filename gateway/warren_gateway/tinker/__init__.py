"""Tinker's protocol, as a thin translation onto Warren's own primitives.

sessions        sessions and samplers of clients, in the store
sampling        what a client asks of a sampler -> questions; answers -> the protocol's
sample_futures  answers that a client comes for later
sample_rows     the same in the store
wire            the protobuf messages
"""
