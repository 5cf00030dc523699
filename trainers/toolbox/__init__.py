"""What helps against a lack of memory, for scripts of one's own, with and without a
supervisor.

Each module says when it helps and where its traps are; docs/toolbox.md has them in one
table.
"""
