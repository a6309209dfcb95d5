"""Addresses in messages."""

from __future__ import annotations

import re

# Up to the last @: too much is hidden rather than too little.
_LOGIN = re.compile(r"://([^:/@]*):.*@")
_OPTION = re.compile(r"(password|passfile|sslpassword)=[^&]*")


def without_password(url: str) -> str:
    """An address that may be shown.

    >>> without_password("postgresql://me:se@cret@db:5432/shop?sslmode=require")
    'postgresql://me:…@db:5432/shop?sslmode=require'
    """
    return _OPTION.sub(r"\1=…", _LOGIN.sub(r"://\1:…@", url))
