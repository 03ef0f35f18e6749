"""What queue and gateway cost the sampler, what updates cost a turn under way, what going back saves."""
