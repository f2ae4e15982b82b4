"""Application-aware priorities on packets: the effect of traffic classes on jobs that share links."""
