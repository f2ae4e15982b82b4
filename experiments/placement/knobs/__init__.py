"""What a training sends less of, and what that does to its accuracy: bytes that links counted, trained weights."""
