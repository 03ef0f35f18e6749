"""The engine on plain transformers: runs wherever torch does."""
