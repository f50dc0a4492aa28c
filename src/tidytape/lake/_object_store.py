"""Object stores: options with short timeouts, and error messages that a user can act on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_IMPATIENT = {"max_retries": "2", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "20s"}
"""Options of the first request to a store, so that a wrong address fails within seconds. Later requests have the
default of delta-rs, which retries for three minutes."""

_SECRET = re.compile(r"secret|token|key|password|sas|credential", re.IGNORECASE)
_STORES = ("AWS_", "AZURE_", "GOOGLE_", "S3_")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SHORTEST_SECRET = 6

# delta-rs appends its stack trace to some errors.
_STACK_TRACE = re.compile(r"\n\s+0: [\s\S]*\Z")

_HINTS = (
    (r"NoSuchBucket|ContainerNotFound", "there is no such bucket"),
    (r"URL scheme is not allowed", "an endpoint without TLS needs AWS_ALLOW_HTTP=true"),
    (
        r"169\.254\.|[Cc]redential|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|40[13] ",
        "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the like of another store, set and allowed to do this?",
    ),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|30[17] ", "is AWS_REGION the bucket's region?"),
    (
        r"Connect|dns error|timed out|error sending request",
        "does the store answer at its address, AWS_ENDPOINT_URL where it is not the cloud's own?",
    ),
)


def impatient(options: Mapping[str, str] | None) -> dict[str, str]:
    """Return the options with short timeouts, so that a store that does not answer is an error within seconds."""
    return _IMPATIENT | dict(options or {})


def for_polars(options: Mapping[str, str] | None) -> dict[str, Any] | None:
    """Return the options for polars, which wants ``max_retries`` as a number, while delta-rs wants text."""
    return {
        name: int(value) if name == "max_retries" and value.isdecimal() else value
        for name, value in (options or {}).items()
    } or None


def explained(error: BaseException, uri: str, options: Mapping[str, str] | None = None) -> str:
    """Return the message of an error on one line, without credentials, and for an object store with a hint.

    Examples
    --------
    >>> error = OSError("Error GET http://x: tcp connect error: Connection refused, key AKIA1234567")
    >>> explained(error, "s3://bucket/lake", {"aws_access_key_id": "AKIA1234567"}).partition(";")[0]
    'Error GET http://x: tcp connect error: Connection refused, key ***'
    """
    text = str(error)
    for value in _secrets(options):
        text = text.replace(value, "***")
    text = _STACK_TRACE.sub("", text)
    if "://" not in uri or uri.startswith("file://"):
        return text
    text = " ".join(_COLOURS.sub("", text).replace("↳", "-").split())
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)
    return f"{text}; {hint}" if hint else text


def cause(error: BaseException, options: Mapping[str, str] | None = None) -> BaseException | None:
    """Return the error as the cause of another error; None if its text contains a credential."""
    text = str(error)
    return None if any(value in text for value in _secrets(options)) else error


def _secrets(options: Mapping[str, str] | None) -> list[str]:
    """Return the credentials among the options and the environment variables of object stores."""
    store_variables = [(name, value) for name, value in os.environ.items() if name.startswith(_STORES)]
    return [
        value
        for name, value in (*store_variables, *(options or {}).items())
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET
    ]
