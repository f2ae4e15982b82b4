"""What tests of runs in real time share."""
