"""Sign-in rules on top of allauth: accounts are made by admins, never by strangers."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAccounts(DefaultAccountAdapter):
    """No sign-up page."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Always closed."""
        return False
