"""Training scripts that tests start in processes of their own; they name no module of this package."""
