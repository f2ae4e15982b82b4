"""What people look at: report pages and the live page."""
