"""JSON bodies of the Tinker protocol: what its clients send, and what they read.

Requests are read leniently, for each version of the clients adds fields; answers have what all of them need.
The protobuf forms are the gateway's.
"""
