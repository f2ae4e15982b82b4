"""The report: one self-contained page, drawn in SVG."""
