"""A placement policy that is learned by policy gradient in the flow model, and how it compares."""
