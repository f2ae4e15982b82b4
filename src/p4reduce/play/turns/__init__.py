"""Jobs that take turns over an optical cross-connect: on packets, and at flow level."""
