"""What the commands of this package do."""
