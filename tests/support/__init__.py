"""What tests share: models, recorders, targets, soaks."""
