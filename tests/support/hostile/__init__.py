"""Frames and requests that nobody honest sends, by the hundred thousand: no crash, no hang, no half of a write."""
