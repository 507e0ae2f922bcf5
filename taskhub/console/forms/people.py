"""Forms about people: sign-in, role, groups and passwords."""

from __future__ import annotations

import re
from typing import Any, Final

from allauth.account.adapter import get_adapter
from allauth.account.forms import ChangePasswordForm, LoginForm, ReauthenticateForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from django import forms

from taskhub.console.confirmed import remember
from taskhub.console.forms.base import ConsoleForm, Typed, picked
from taskhub.control import factors
from taskhub.core.errors import Invalid, LimitReached
from taskhub.core.states import Role

CODE: Final = {"autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false", "class": "mono"}
"""Attributes of the input of a code. Not `inputmode`: recovery codes may be pasted with blanks."""


class Groups(Typed):
    """Names of groups, separated by commas."""

    def __init__(self) -> None:
        super().__init__(label="Groups, separated by commas", longest=1_500)

    def clean(self, value: Any) -> list[str]:
        """The names, as a list."""
        return [name for name in (part.strip() for part in re.split(r"[,\n]", self.to_python(value))) if name]


class RoleForm(ConsoleForm):
    """A person's role and groups."""

    first = "role"
    role = picked([(role, role) for role in Role], label="Role", initial=Role.VIEWER)
    groups = Groups()


class PersonForm(RoleForm):
    """Adds a person."""

    first = ""
    field_order = ("username", "role", "groups")
    username = Typed(label="Username", longest=150, demanded=True)


class PasswordForm(ConsoleForm):
    """Sets another person's password; an empty field asks for a generated one."""

    first = "password"
    password = forms.CharField(
        required=False,
        strip=False,
        max_length=1_000,
        help_text="Leave empty to generate one; it is shown once.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class Ours:
    """A mixin for allauth's forms: sets label, help text and widget attributes of the fields that `ours` names."""

    ours: dict[str, tuple[str, str, dict[str, Any]]]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Mixed into forms only, which have `fields`.
        fields: dict[str, forms.Field] = self.fields  # type: ignore[attr-defined]
        for name, (label, help_text, attributes) in self.ours.items():
            if (field := fields.get(name)) is None:
                continue
            field.label, field.help_text = label, help_text
            field.widget.attrs.pop("placeholder", None)
            field.widget.attrs |= attributes
            field.widget.is_required = False  # every field is required, so none is marked


class SignIn(Ours, LoginForm):
    """The sign-in form."""

    ours = {
        "login": ("Username", "", {"autocapitalize": "none", "spellcheck": "false"}),
        "password": ("Password", "", {}),
        "remember": ("Keep me signed in here", "", {}),
    }

    @property
    def focus(self) -> str:
        """The field to focus; empty after a failed attempt."""
        return "" if self.is_bound else "login"


class OwnPassword(Ours, ChangePasswordForm):
    """Changes one's own password."""

    ours = {
        "oldpassword": ("Current password", "", {}),
        "password1": ("New password", "At least 12 characters, and none that many people use.", {}),
        "password2": ("New password, again", "", {}),
    }

    def clean_oldpassword(self) -> str:
        """The present password. A wrong one is on record, as at sign-in."""
        try:
            found: str = super().clean_oldpassword()
        except forms.ValidationError:
            get_adapter().authentication_failed(context.request, username=context.request.user.get_username())
            raise
        return found


class ItIsYou(Ours, ReauthenticateForm):
    """Asks for the password again before a sensitive action."""

    ours = {"password": ("Password", "", {})}


class SetUpForm(ConsoleForm):
    """The first code of a new authenticator app, whose secret is `sealed` in the page."""

    first = "code"
    sealed = forms.CharField(max_length=1_000, widget=forms.HiddenInput)
    code = Typed(label="Code that the app shows now", longest=20, demanded=True, attrs=dict(CODE))


class SignInCode(Ours, AuthenticateForm):
    """The code of a person who is signing in."""

    ours = {"code": ("Code", "Of your authenticator app, or one of your recovery codes.", CODE)}

    def clean_code(self) -> str:
        """Check the code, which uses it up, and return it. Raises `ValidationError`."""
        code: str = self.cleaned_data["code"]
        address = str(context.request.META.get("REMOTE_ADDR") or "")
        try:
            found = factors.code_at_sign_in(self.user.pk, self.user.get_username(), code, address=address)
        except LimitReached as error:
            raise forms.ValidationError(error.message, code="too_many") from None
        except Invalid as error:
            raise forms.ValidationError(error.message) from None
        self.authenticator = found.record
        return code

    def save(self) -> None:
        """Finish this step of the sign-in, and keep in its session that the person confirmed their second factor."""
        super().save()
        remember(context.request.session, self.user.pk, self.authenticator.pk)

    @property
    def focus(self) -> str:
        """The field to focus: always the code."""
        return "code"
