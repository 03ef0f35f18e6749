# What Warren uses of protobuf, which has no types of its own.
