"""Notes of an answer about markets whose points do not fill the window: the reason, and the data that the market has.

In JSON the notes stand beside the series, ``{"series": [...], "notes": [...]}``; in Arrow they are metadata of the
schema, in the same JSON. A service that follows only the specification sends no notes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.ipc

from tidytape.catalogue import NOTE_FIELDS, Kind, NoteCode
from tidytape.wire._faults import Fault
from tidytape.wire._values import read_value, written_time

ARROW_KEY = b"tidytape.notes"
"""The key of the notes in the metadata of an Arrow schema."""

_LONGEST = 2**24
"""Notes are read only if they end a body and are not longer than this. [byte]"""


@dataclass(frozen=True, slots=True)
class Note:
    """A note of the service about one market.

    Attributes
    ----------
    code : NoteCode
        Why the points do not fill the window.
    type : str or None
        The data type.
    exchange, raw_symbol, coin : str or None
        The market. Option summaries also have a coin, and tokens have only a coin.
    first, last : int or None
        Times of the first and the last event of this data type that the service has. [ns since the epoch]
    types : tuple of str
        The data types that the market has, if it does not have this type.
    intervals : tuple of str
        The intervals that can be computed from the market's recorded candles, if the query has another interval.
    tenors : tuple of str
        The tenors that can be computed from the market's newest quotes, if the query has another tenor.
    parameters : tuple of str
        The parameters of the query that the data type has no use for.
    exchanges : tuple of str
        The exchanges that the points are sums over, if the query names none.
    renamed_from, renamed_to : str or None
        The symbol that the market had before it was renamed, or has since, if the window lies on that side.
    renamed_at : int or None
        When it was renamed. [ns since the epoch]
    """

    code: NoteCode
    type: str | None = None
    exchange: str | None = None
    raw_symbol: str | None = None
    coin: str | None = None
    first: int | None = None
    last: int | None = None
    types: tuple[str, ...] = ()
    intervals: tuple[str, ...] = ()
    tenors: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()
    renamed_from: str | None = None
    renamed_to: str | None = None
    renamed_at: int | None = None


def write_notes(notes: Iterable[Note]) -> bytes:
    """Write notes as a JSON array, without null and empty fields.

    Examples
    --------
    >>> write_notes([Note(NoteCode.QUIET, exchange="X", raw_symbol="BTC", first=5 * 10**9)])
    b'[{"code":"QUIET","exchange":"X","rawSymbol":"BTC","first":{"s":5}}]'
    """
    return orjson.dumps([_written(note) for note in notes])


def read_notes(text: bytes) -> tuple[Note, ...] | None:
    """Read a JSON array of notes, and skip notes that tidytape does not understand; None if it is not a JSON array."""
    with suppress(ValueError):
        return _read(orjson.loads(text))
    return None


def notes_in_json(body: bytes) -> tuple[Note, ...] | None:
    """Return the notes of a JSON body that has been decoded without an error; None if it has no notes.

    Only the end of the body is parsed again, from the last key ``notes`` on, because the rest may be long.

    Examples
    --------
    >>> notes_in_json(b'{"series":[],"notes":[{"code":"QUIET"}]}')[0].code
    <NoteCode.QUIET: 'QUIET'>
    >>> notes_in_json(b'{"series":[]}') is None
    True
    """
    position = body.rfind(b'"notes"')
    if position < 0 or len(body) - position > _LONGEST:
        return None
    with suppress(ValueError):  # raised if the key belongs to an object further inside
        return _read(orjson.loads(b"{" + body[position:]).get("notes"))
    return None


def notes_in_arrow(body: bytes) -> tuple[Note, ...] | None:
    """Return the notes of an Arrow stream that has been read without an error; None if it has no notes."""
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        text = (reader.schema.metadata or {}).get(ARROW_KEY)
    return None if text is None else read_notes(text)


def _written(note: Note) -> dict[str, Any]:
    values = {field.name: getattr(note, field.column) for field in NOTE_FIELDS}
    return {
        field.name: written_time(values[field.name]) if field.kind == "timestamp" else values[field.name]
        for field in NOTE_FIELDS
        if values[field.name] not in (None, ())
    }


def _read(entries: Any) -> tuple[Note, ...] | None:
    if not isinstance(entries, list):
        return None
    notes = []
    for entry in entries:
        # Leave out a note with an unknown code, or with a field of another kind.
        with suppress(AttributeError, KeyError, TypeError, Fault):
            fields = {
                field.column: _value(entry[field.name], field.kind)
                for field in NOTE_FIELDS
                if entry.get(field.name) is not None
            }
            notes.append(Note(**fields | {"code": NoteCode[entry["code"]]}))
    return tuple(notes)


def _value(sent: Any, kind: Kind) -> Any:
    value = read_value(sent, kind)
    if isinstance(value, list) and None in value:
        raise Fault("a name is null")
    return tuple(value) if isinstance(value, list) else value
