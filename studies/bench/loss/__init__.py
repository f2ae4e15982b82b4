"""What losses cost: time over the lower bound, questions, and needless repetitions."""
