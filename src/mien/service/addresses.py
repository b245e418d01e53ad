"""Whom an address stands for."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network


def address_group(address: str | None) -> str:
    """The address as it is counted: a household or a clinic has a whole /64 of IPv6.

    >>> address_group("2001:db8::7")
    '2001:db8::/64'
    """
    if not address or ":" not in address:
        return address or ""
    whole = IPv6Address(address.partition("%")[0])
    return str(whole.ipv4_mapped or IPv6Network((whole, 64), strict=False))
