"""What the P4Runtime tests share: pipeline configurations, entities by name, a raw gRPC client."""
