"""Names of one tenant of the Tinker protocol, as they are and made nearly right, in the hands of another."""
