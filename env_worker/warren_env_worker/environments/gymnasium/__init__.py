"""Environments of Gymnasium and MiniGrid as text, in the virtual environment `gymnasium`."""
