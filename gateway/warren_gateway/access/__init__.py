"""Who calls, and what they may do: users, API keys, the audit log."""
