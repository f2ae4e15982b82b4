"""What every part of the switch may import."""
