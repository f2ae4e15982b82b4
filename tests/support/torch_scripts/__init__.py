"""Training scripts that tests start in their own processes; they import no module of this package."""
