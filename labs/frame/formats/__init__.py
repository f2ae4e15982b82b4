"""Reports as what instructors collect with reads."""
