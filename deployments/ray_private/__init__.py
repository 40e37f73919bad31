"""Everything that the project uses of Ray's private API.

Each use was checked in the source of the version below. Check them again when you raise it.
"""

READ_IN = "2.60"
