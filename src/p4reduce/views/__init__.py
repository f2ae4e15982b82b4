"""Views for people: report pages and the live page."""
