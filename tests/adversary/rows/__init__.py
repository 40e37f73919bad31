"""The attacks, a module for each kind."""

from tests.adversary.rows import bodies, headers, paths, slow, smuggling, tokens

ATTACKS = (
    *smuggling.ATTACKS,
    *headers.ATTACKS,
    *tokens.ATTACKS,
    *paths.ATTACKS,
    *bodies.ATTACKS,
    *slow.ATTACKS,
)
