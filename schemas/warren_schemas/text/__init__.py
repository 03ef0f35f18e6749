"""What people write for a schema: shorthand, and errors that a person can act on."""
