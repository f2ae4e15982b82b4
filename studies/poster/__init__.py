"""The poster's experiment on packets: AI tasks under every scheduling policy, latency and bandwidth."""
