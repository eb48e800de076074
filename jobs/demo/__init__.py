"""``make demo``: the main job on real parts, from nothing to a verified table."""
