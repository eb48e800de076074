"""Frames to Arrow: a reference decoder in plain Python and a compiled one under the same rules."""
