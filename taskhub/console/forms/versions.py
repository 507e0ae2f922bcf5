"""The form that chooses two versions of a tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskhub.console.forms.base import ConsoleForm, picked
from taskhub.domain.catalogue.versions import Version
from taskhub.lib.numbers import whole


class VersionsForm(ConsoleForm):
    """Chooses two of a tool's versions, which are given newest first. By default: the newest, and the one before it.
    The number of a version that is not kept is ignored."""

    before = picked((), label="From")
    after = picked((), label="To")

    def __init__(self, versions: Sequence[Version], data: Any) -> None:
        by_number = {version.number: version for version in versions}
        after = by_number.get(whole(data.get("after", "")) or 0, versions[0])
        older = [version for version in versions if version.number < after.number]
        before = by_number.get(whole(data.get("before", "")) or 0, older[0] if older else after)
        super().__init__({"before": str(before.number), "after": str(after.number)})
        self.versions = (before, after)
        for name in ("before", "after"):
            self.fields[name].widget.choices = [(str(number), str(number)) for number in by_number]
