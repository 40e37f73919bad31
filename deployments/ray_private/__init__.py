"""All that the project uses of Ray although Ray does not promise to keep it.

Each was read in Ray's source of the version below. Whoever raises that version reads them again.
"""

READ_IN = "2.60"
