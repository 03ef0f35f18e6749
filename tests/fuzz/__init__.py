"""Messages that no part of ours would send, to parts that run: `make fuzz`."""
