"""Helpers of the P4Runtime tests: pipeline configurations, entities by name, a raw gRPC client."""
