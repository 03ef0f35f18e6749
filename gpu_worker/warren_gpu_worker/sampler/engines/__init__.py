"""Engines: token ids in, token ids out, behind one port."""
