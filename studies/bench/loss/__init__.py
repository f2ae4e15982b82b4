"""What losses cost: time over the lower bound, questions, and repetitions that nobody needed."""
