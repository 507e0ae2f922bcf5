import pytest
from django.db import connection
from tests import factories as f
from tests.store.flushing import superuser
from taskhub.lifecycle.sweep import purge
from taskhub.store.models import Task, Event

@pytest.mark.django_db(transaction=True)
def test_a():
    t=f.make_tenant(); c=f.make_context(t); f.make_task(c, state="finished")
    assert Task.objects.count()==1

@pytest.mark.django_db(transaction=True)
def test_b():
    assert Task.objects.count()==0
    assert Event.objects.count()==0
    t=f.make_tenant(); c=f.make_context(t); x=f.make_task(c, state="finished")
    with superuser() as s:
        for r in s.execute("select pid, usename, application_name, state, query from pg_stat_activity where datname=current_database()"): print(r)
