"""Bodies made smaller where the caller takes that: zstd, else gzip, at the level that costs next to nothing."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["packed"]

_SMALLEST = 1_024  # bytes; below it a header more is no gain
_CODINGS = {"zstd": pa.Codec("zstd", compression_level=1), "gzip": pa.Codec("gzip", compression_level=1)}


def packed(body: bytes, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """Return a body as the caller takes it best, and the headers that say so.

    Parameters
    ----------
    body : bytes
        As it is. [byte]
    accept_encoding : str
        What the caller takes, as the header says it; ``*`` is gzip. Among codings of one quality zstd is best.

    Returns
    -------
    bytes
        The body, packed or as it was. [byte]
    dict of str to str
        Headers of the response.

    Examples
    --------
    >>> packed(b"x" * 5000, "gzip, zstd;q=0.5")[1]["Content-Encoding"]
    'gzip'
    >>> packed(b"x" * 5000, "identity")[1]
    {}
    """
    taken = _qualities(accept_encoding)
    quality = {name: taken.get(name, taken.get("*", 0.0) if name == "gzip" else 0.0) for name in _CODINGS}
    best = max(quality, key=lambda name: quality[name])
    if len(body) < _SMALLEST or not 0 < quality[best] >= taken.get("identity", 0.0):
        return body, {}
    return _CODINGS[best].compress(body, asbytes=True), {"Content-Encoding": best}


def _qualities(header: str) -> dict[str, float]:
    found = {}
    for choice in header.lower().split(","):
        name, *options = (part.strip() for part in choice.split(";"))
        quality = 1.0
        for option in options:
            if option.replace(" ", "").startswith("q="):
                try:
                    quality = float(option.partition("=")[2])
                except ValueError:
                    quality = 0.0
        found[name] = quality
    return found
