"""What an episode is worth: the parts of its reward, and how they become one number."""
