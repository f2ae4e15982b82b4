"""Studies of docs/: their declarations, the execution of their cells, and their output files.

``frame.py`` has the building blocks of a study; ``pages.py`` writes its tables, figures and pages and has its command.
Each folder holds one study.
"""
