"""Every URL of TaskHub."""

urlpatterns: list[object] = []
