"""Types of fields that a message carries apart from its JSON: arrays, and specs as texts."""
