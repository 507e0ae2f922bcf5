"""Secrets in commands and addresses of servers are encrypted, as tokens are."""

from typing import Any

from django.conf import settings
from django.db import migrations, models

from taskhub.core.secrets import redacted, without_secrets
from taskhub.lib.sealing import Vault


def seal(apps: Any, schema_editor: Any) -> None:
    """What was there before."""
    for server in apps.get_model("store", "Server").objects.iterator():
        shown = redacted(server.transport, server.target)
        if shown == server.target:
            continue
        server.problem = without_secrets(server.problem, server.transport, server.target)
        server.incomplete = without_secrets(server.incomplete, server.transport, server.target)
        server.sealed_target = Vault(settings.SECRET_KEY.encode()).lock(server.target)
        server.target = shown
        server.save(update_fields=["target", "sealed_target", "problem", "incomplete"])


class Migration(migrations.Migration):
    dependencies = [("store", "0028_timings")]

    operations = [
        migrations.AddField("server", "sealed_target", models.BinaryField(null=True)),
        migrations.RunPython(seal, migrations.RunPython.noop),
    ]
