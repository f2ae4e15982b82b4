"""Errors of the fabric."""


class FabricError(ValueError):
    """A network that cannot be built or cannot go on; the text names the setting and the fix."""
