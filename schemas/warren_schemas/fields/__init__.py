"""Types of fields that a message carries apart from its JSON: arrays, and specs and growing lists as texts."""
