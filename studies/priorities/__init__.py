"""Application-aware priorities on packets: what classes, and who gets them, do to jobs that share links."""
