"""Studies of docs/: what is declared of each, how its cells are run, and what it leaves behind.

``frame.py`` is what a study is made of, ``pages.py`` writes its tables, figures and pages and is its command. Each
folder holds one study.
"""
