"""Data sets: rows that users upload, and what may stand in one."""
