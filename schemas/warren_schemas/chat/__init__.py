"""What a policy writes in a chat: what it says aloud, and how it calls tools."""
