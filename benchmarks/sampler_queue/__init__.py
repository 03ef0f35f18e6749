"""What queue and gateway cost the sampler, and what updates cost a turn under way."""
