"""The catalogue of refusals (exit code 3): causes, remedies and messages by code."""
