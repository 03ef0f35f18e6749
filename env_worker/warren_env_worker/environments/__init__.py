"""Built-in environments; each module imports only what its environment needs."""
