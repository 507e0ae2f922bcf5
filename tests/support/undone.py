"""Trying many things on one made-up world: a table of rows in one test, each from the same beginning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.cache import cache
from django.db import transaction

from taskhub.domain.catalogue import view as catalogue
from taskhub.domain.clients import principals
from taskhub.domain.tasks import create


def forget() -> None:
    """Empty the caches of this process, which outlive the rows they were read from."""
    principals.forget_principals()
    catalogue.forget_catalogues()
    create.forget_counts()
    cache.clear()


@contextmanager
def undone(row: object) -> Iterator[None]:
    """Take back what is done in the database meanwhile. A failure names the row."""
    try:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)
    except BaseException as error:
        error.add_note(f"in the row {row}")
        raise
    finally:
        forget()
