"""The child's half: chat to tokens, policies to the engine, tokens to text."""
