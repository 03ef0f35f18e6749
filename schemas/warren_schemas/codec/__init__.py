"""The codec: items to the bytes of a message and back."""
