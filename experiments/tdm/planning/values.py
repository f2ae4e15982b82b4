"""Figures of a part."""

Values = dict[str, list[float]]
"""figures by name, of one seed or of all"""
