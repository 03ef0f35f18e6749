"""The protobuf messages of the protocol: `messages.proto`, compiled to `messages.binpb`, made to classes at import.

No compiled Python: that would demand a version of the protobuf library, and vLLM demands another one.
"""
