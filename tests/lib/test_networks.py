"""What of a peer's address tells it from others."""

import pytest

from taskhub.lib.networks import network


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a proxy's own word", "a proxy's own word"),
        ("", ""),
    ],
)
def test_an_address_counts_as_its_network(address: str, expected: str) -> None:
    assert network(address) == expected
