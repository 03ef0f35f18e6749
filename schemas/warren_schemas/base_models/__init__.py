"""Base models that users bring: what their files may hold, and how they are called."""
