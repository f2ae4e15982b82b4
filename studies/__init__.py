"""Studies of docs/: what is declared of each, how its cells are run, and what it leaves behind.

``frame.py`` is what a study is made of, ``parallel.py`` how cells are spread, ``charts.py`` its figures, ``pages.py``
its tables and its command. Each folder holds one study.
"""
