"""Status codes of updates and reads: the embedded switch's P4Runtime server beside BMv2's."""
