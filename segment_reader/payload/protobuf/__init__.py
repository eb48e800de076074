"""Protobuf payloads as typed columns."""
