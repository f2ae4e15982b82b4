"""What can be typed: every command with its flags, a module for each panel of the help; all quick to import."""
