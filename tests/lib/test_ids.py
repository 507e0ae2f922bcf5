"""Identifiers that nobody guesses."""

from __future__ import annotations

import hashlib
import re

from taskhub.lib import ids


def test_a_public_id_has_192_bits_in_characters_that_headers_and_command_lines_carry() -> None:
    made = {ids.public_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{31}", one) for one in made)


def test_a_token_has_a_prefix_that_scanners_find_and_256_bits() -> None:
    made = {ids.token() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(r"thub_[A-Za-z0-9_-]{43}", one) for one in made)


def test_a_digest_is_the_sha256_of_the_secret_whatever_it_holds() -> None:
    assert ids.digest("thub_x") == hashlib.sha256(b"thub_x").digest()
    assert len(ids.digest("\ud800\0")) == 32
