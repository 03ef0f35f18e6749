"""Every message, HTTP body and config of Warren, and the codec that carries them.

Nothing here talks to a network, a disk or a GPU, and nothing here imports another part of Warren:
the schemas are the ground that every part stands on.
"""
