"""Drivers that were started: how each kind is found again, followed and stopped."""
