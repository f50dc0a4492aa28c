"""The methods of both clients, defined once, and the flow of each method.

``Client`` fills the type variables with frames, ``AsyncClient`` with awaitables of frames. Both have the same methods,
parameters and documentation.
"""

from __future__ import annotations

import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, get_args

import polars as pl

from tidytape._forks import refuse_fork
from tidytape._other_clients import explained
from tidytape.budget import Tier
from tidytape.budget import tier as tier_of
from tidytape.catalogue import SortDirection
from tidytape.client import _request as request
from tidytape.client._as_of import AsOfQuery, markets_as_of
from tidytape.client._batches import Present, Reading
from tidytape.client._computed import computed
from tidytape.client._events import EventsQuery
from tidytape.client._fetching import fetched
from tidytape.client._following import Following, OnGap
from tidytape.client._lists import ListMethods
from tidytape.client._live import Keep, Live
from tidytape.client._metadata import Metadata
from tidytape.client._plans import Plan, PlanPart, planned
from tidytape.client._reasons import Reason, in_every_part, of_type, warn_of_empty
from tidytape.client._series import FetchQuery, SeriesMethods, arguments_of, refuse_ignored
from tidytape.client._settings import Backend, Settings, one_of
from tidytape.client._steps import Call, Flow, closed_error
from tidytape.client._streams import StreamMethods
from tidytape.client._tape import NO_TAPE, Recorder
from tidytape.client._window import Window, covering
from tidytape.errors import DecodeError, QueryError, TapeError, TransportError
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery, StreamQuery
from tidytape.query._values import Names, TimeLike
from tidytape.schema import BLOCK_SIZES, HOLDINGS, MARKETS, PREDICTION_MARKETS, Schema
from tidytape.wire._sessions import travelling
from tidytape.wire._tidy import fitted

FrameT = TypeVar("FrameT")
NamesT = TypeVar("NamesT")
UsageT = TypeVar("UsageT")
PlanT = TypeVar("PlanT")
FetchedT = TypeVar("FetchedT")
WrittenT = TypeVar("WrittenT")
StreamT = TypeVar("StreamT")
LiveT = TypeVar("LiveT")
R = TypeVar("R")


_SUFFIXES = (".parquet", ".pq")


class ParquetFile:
    """A context manager that writes frames of one schema to a file.

    It writes under another name, and renames the file when the file is complete.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    QueryError
        If ``path`` is a folder, its folder does not exist, or its name does not end in ``.parquet`` or ``.pq``.

    Attributes
    ----------
    rows : int
        How many rows were written.
    """

    def __init__(self, path: Path) -> None:
        self.rows = 0
        if path.is_dir() or not path.parent.is_dir():
            raise QueryError("path", got=str(path), expected="a file in a folder that exists")
        if path.suffix.lower() not in _SUFFIXES:
            raise QueryError(
                "path", got=str(path), expected="a name that ends in .parquet; it is written as Parquet"
            )
        self._path = path
        # A random name, because another process may write to the same file.
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._writer: Any = None
        self._columns: dict[str, pl.DataType] = {}

    def write(self, frame: pl.DataFrame) -> None:
        """Write the rows of one frame.

        Raises
        ------
        DecodeError
            If the frame has a column that the first frame lacks or that has another dtype there, because the service
            has changed; or if Parquet cannot hold a column.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq  # only here, so that the client loads quickly

        if self._writer is None:
            self._columns = dict(frame.schema)
            try:
                self._writer = pq.ParquetWriter(self._part, frame.to_arrow().schema, compression="zstd")
            except pa.ArrowException as error:  # e.g. an object that is always empty
                raise DecodeError(
                    f"the service sent a field that no Parquet file can hold: {error}"
                ) from None
        new_columns = [name for name in frame.columns if name not in self._columns]
        if new_columns:
            raise DecodeError(
                f"column {new_columns[0]} is in a later answer and not in the first; a file has one schema"
            )
        rows = pl.DataFrame([_column(frame, name, dtype) for name, dtype in self._columns.items()])
        self._writer.write_table(rows.to_arrow())
        self.rows += frame.height

    def __enter__(self) -> ParquetFile:
        """Return the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the finished file its name; after an error remove the unfinished file."""
        if self._writer is not None:
            self._writer.close()
        if error is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.Series:
    """Return a column of a frame with its dtype in the file; if the frame lacks the column, it is null."""
    if name not in frame.columns:
        return pl.repeat(None, frame.height, dtype=dtype, eager=True).alias(name)
    column = fitted(frame[name], dtype)
    if column is None:
        raise DecodeError(
            f"column {name} is {frame.schema[name]} in a later answer and {dtype} in the first; a file has one schema"
        )
    return column


Asked = FetchQuery | PointsQuery | Sequence[PointsQuery]
"""The argument of ``fetch``: what a method of ``client.query`` returns, or PointsQuery objects whose windows adjoin."""

Several = Asked | Sequence[Asked]
"""The argument of ``plan``: an argument of ``fetch``, or a list of them."""

ListQuery: TypeAlias = MetaQuery | MarketsQuery | AsOfQuery
"""The query of a list."""

_TABLES: Mapping[
    str, tuple[Callable[..., ListQuery], Callable[[Settings, Any], Flow[pl.DataFrame]], Schema]
] = MappingProxyType(
    {
        "markets": (MarketsQuery, request.markets, MARKETS),
        "markets-as-of": (AsOfQuery.of, markets_as_of, MARKETS),
        "prediction-markets": (MarketsQuery, request.prediction_markets, PREDICTION_MARKETS),
        "block-sizes": (MetaQuery, request.block_sizes, BLOCK_SIZES),
        "holdings": (MetaQuery, request.holdings, HOLDINGS),
    }
)
"""By list that is a frame: what makes its query, what requests it, and its schema."""
_OF_A_TYPE = frozenset({"symbols", "normalized-symbols"})
"""Lists of names whose query must have a data type."""


@dataclass(frozen=True, slots=True, repr=False)
class Fetched(Generic[FrameT]):
    """A frame and the metadata of its fetch.

    Attributes
    ----------
    frame : frame
        The frame, as the method of the query returns it.
    metadata : Metadata
        The query, requests and weight, spans from the cache, missing spans, and the frame's hash.
    """

    frame: FrameT
    metadata: Metadata

    def __repr__(self) -> str:
        """Return the metadata on one line, and the frame."""
        return f"<Fetched {self.metadata!r}>\n{self.frame!r}"

    def _repr_html_(self) -> str:
        """Return the metadata and the frame for a notebook."""
        shown: str = self.frame._repr_html_()  # type: ignore[attr-defined]  # polars and pandas have it
        return self.metadata._repr_html_() + shown


@dataclass(frozen=True, slots=True)
class Written:
    """What ``to_parquet`` has written, and the requests and the weight that it took.

    Attributes
    ----------
    path : Path
        The file.
    rows : int
        How many rows it has.
    requests : int
        How many requests the client sent, as in `Metadata`.
    weight : int
        The weight of these requests, as in `Metadata`. [weight]
    """

    path: Path
    rows: int
    requests: int
    weight: int


class Queries(SeriesMethods[FetchQuery]):
    """The methods of a client that fetch a data type; here each one returns its query and sends nothing.

    Examples
    --------
    >>> query = Queries().candles(exchange="X", coin="BTC", interval="1m", start=0, end=250_000 * 60)
    >>> [request.points for request in query.queries]
    [100000, 100000, 50000]
    """

    def _points(self, query: FetchQuery) -> FetchQuery:
        return query


@explained
class Endpoints(
    SeriesMethods[FrameT],
    ListMethods[FrameT, NamesT, UsageT],
    StreamMethods[StreamT, LiveT],
    Generic[FrameT, NamesT, UsageT, PlanT, FetchedT, WrittenT, StreamT, LiveT],
):
    """The methods of both clients. All arguments are keyword-only.

    Windows are half-open: ``start`` belongs to them, ``end`` does not. Times are epoch seconds, datetimes, dates or
    ISO 8601 strings; a time without a zone is UTC. A candle or profile belongs to the window if its interval starts
    there: a window from 23:50 to 00:05 has one candle of an hour, which starts at midnight. If a window is longer than
    one request may be, the client sends several requests. If the budget of the key is used up, the client waits.
    """

    def __init__(self, settings: Settings, backend: Backend, transport: object) -> None:
        refuse_fork()
        self._settings = settings
        self._backend = one_of("backend", backend, get_args(Backend))
        self._transport = transport
        self._closed = False
        self._tape = NO_TAPE

    def __repr__(self) -> str:
        """Return the address, the lake or the tape that answers, and the backend, never the key."""
        name, path = type(self).__name__, self._tape.replayed
        backend, lake = f"backend={self._backend!r}", getattr(self._transport, "lake", None)
        if path is not None:
            return f"{name}.replay({str(path)!r}, {backend})"
        if lake is not None:
            is_demo = getattr(self._transport, "is_demo", False)
            return f"{name}.demo({backend})" if is_demo else f"{name}.local({str(lake.path)!r}, {backend})"
        return f"{name}({self._settings.base_url!r}, {backend})"

    @abstractmethod
    def _run(self, steps: Flow[Any]) -> Any:
        """Run a flow and return its result, or an awaitable of the result."""

    # --- what the methods of data types, lists and streams call ---

    def _points(self, query: FetchQuery) -> FrameT:
        def steps() -> Flow[Any]:
            return (yield from self._fetched(query)).frame

        frame: FrameT = self._run(steps())
        return frame

    def _names(self, name: str, arguments: Mapping[str, Any]) -> NamesT:
        query = MetaQuery(**arguments_of(arguments))
        if not query.type and name in _OF_A_TYPE:
            raise QueryError("type", got=None, expected="at least one data type", code="INVALID_TYPE")
        names: NamesT = self._run(self._taped(name, query, request.names(self._settings, name, query)))
        return names

    def _table(self, name: str, arguments: Mapping[str, Any]) -> FrameT:
        query = _TABLES[name][0](**arguments_of(arguments))
        frame: FrameT = self._run(self._fetch_table(name, query))
        return frame

    def _usage(self) -> UsageT:
        usage: UsageT = self._run(self._taped("usage", None, request.usage(self._settings)))
        return usage

    def _following(self, query: StreamQuery, on_gap: OnGap, present: Present | None = None) -> Following:
        """Return the protocol of a stream; raise an error if the client has a tape or is offline."""
        refuse_fork()
        if self._tape is not NO_TAPE:
            raise TapeError(
                "a tape cannot hold a stream, which has no end; record the fetch of a window instead",
                path=None if self._tape.replayed is None else str(self._tape.replayed),
            )
        if self._settings.offline:
            raise TransportError("/v1/stream: the client is offline, and a cache cannot hold a stream")
        reading = Reading(query, self._settings.absent, present or self._presented)
        return Following(self._settings, query, reading, on_gap=on_gap)

    @abstractmethod
    def _stream_of(self, following: Following) -> StreamT:
        """Return the stream of a protocol."""

    @staticmethod
    @abstractmethod
    def _drive(stream: Any, take: Callable[[Any], None]) -> None:
        """Follow a stream to its end in this thread."""

    def _streamed(self, query: StreamQuery, on_gap: OnGap) -> StreamT:
        return self._stream_of(self._following(query, on_gap))

    def _followed(self, query: StreamQuery, on_gap: OnGap, keep: Keep) -> LiveT:
        following = self._following(query, on_gap, lambda frame, _: frame)
        stream: Any = self._stream_of(following)
        schemas = Reading(query, self._settings.absent, self._presented).schemas
        live: Any = Live(stream, self._drive, schemas, keep, self._presented)
        return live  # type: ignore[no-any-return]

    # --- queries, and what takes a query of any data type ---

    @property
    def query(self) -> Queries:
        """The same methods, but each returns its query, a `FetchQuery`, and fetches nothing.

        Pass the query to ``plan``, ``fetch``, ``iter_frames`` or ``to_parquet``.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     asked = client.query.candles(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1m", start="2024-08-08", end="2024-08-09"
        ...     )
        ...     str(client.plan(asked)), client.fetch(asked).metadata.weight
        ('1 request, weight 2, 0 s of waiting for the budget', 2)
        """
        return Queries()

    def plan(self, query: Several, *, tier: str | Tier | None = None) -> PlanT:
        """Return the requests that a fetch would send now, and their weight, without sending them.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or a list of any of these
            The queries of a list share one budget, and may have different data types. Queries that differ only in time
            are parts of one window.
        tier : str or Tier, optional
            Plan for a key of this tier with a full budget, instead of the key of the client: ``basic``, ``advanced`` or
            ``enterprise`` of the contract, or a tier of your own. Then the client sends nothing, and ``refusal`` of the
            plan says if the tier does not include the query.

        Returns
        -------
        Plan
            Requests, weight, time under the current budget, and spans from the cache: in total, and for each query in
            ``parts``. A notebook shows it as a table. Answers from a tape take no request.

        Raises
        ------
        QueryError
            If an argument is not a query, the queries of one window leave a gap, or there is no such tier.
        BudgetError
            If a thousand points weigh more than the bucket can hold, so that no request is light enough.
        TapeError
            If the client replays a tape that has no answer to a query.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.plan(client.query.tpo(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1m", start="2024-01-01", end="2024-04-01"
        ...     )).weight
        660

        >>> day = {"exchange": "DEMO_PERP", "coin": "BTC", "start": "2024-08-07", "end": "2024-08-09"}
        >>> with tidytape.Client.demo() as client:
        ...     plan = client.plan([
        ...         client.query.candles(interval="1m", **day), client.query.funding(interval="1h", **day)
        ...     ])
        >>> plan, [part.weight for part in plan.parts]
        (<Plan 2 requests, weight 4, 0 s of waiting for the budget>, [3, 1])

        A year of minute candles with a key of the Basic tier, which sees the last 90 days:

        >>> with tidytape.Client.demo() as client:
        ...     year = client.query.candles(
        ...         exchange="BINANCE", coin="BTC", interval="1m", start="2024-01-01", end="2025-01-01"
        ...     )
        ...     plan = client.plan(year, tier="basic")
        >>> plan.weight, plan.seconds, plan.refusal
        (528, None, "start: got '2024-01-01T00:00:00Z', expected a time in the last 90 days, which the basic tier has")
        """
        tier_or_none = tier_of(tier) if isinstance(tier, str) else tier
        plan: PlanT = self._run(self._planned(each_of(query), tier_or_none))
        return plan

    def fetch(self, query: Asked) -> FetchedT:
        """Fetch a frame together with its metadata.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or several whose windows adjoin

        Returns
        -------
        Fetched
            ``frame``, as the method of the query returns it, and ``metadata``: requests, weight, spans from the cache,
            missing spans (with ``partial="flag"``), and the hash of the frame.

        Raises
        ------
        TidytapeError
            The same errors as the method of the query.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.fetch(client.query.candles(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     ))
        >>> day.frame.height, day.metadata.requests, day.metadata.missing
        (24, 1, ())
        """
        fetched: FetchedT = self._run(self._fetched(query_of(query)))
        return fetched

    def to_parquet(self, query: Asked, path: str | os.PathLike[str]) -> WrittenT:
        """Fetch into a Parquet file, request by request. So the data need not fit into memory.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or several whose windows adjoin
        path : path
            The file. The client writes under another name, and renames the file when it is complete.

        Returns
        -------
        Written
            Rows, requests and weight. The requests are in the order of time. The rows of each request are in the order
            of the frame.

        Raises
        ------
        TidytapeError
            The same errors as the method of the query. The cache then has the points that came before the error.

        Examples
        --------
        >>> import tempfile, tidytape
        >>> with tidytape.Client.demo() as client, tempfile.TemporaryDirectory() as folder:
        ...     asked = client.query.candles(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        ...     client.to_parquet(asked, f"{folder}/day.parquet").rows
        24
        """
        written: WrittenT = self._run(self._written(query_of(query), Path(path)))
        return written

    # --- events of a lake ---

    @property
    def has_lake(self) -> bool:
        """Whether the client has a lake in this process, so that `events` can be read."""
        return getattr(self._transport, "lake", None) is not None

    def events(
        self,
        table: str,
        *,
        exchange: Names = None,
        raw_symbol: Names = None,
        coin: Names = None,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> FrameT:
        """Read events of the lake that a local client answers from, such as the quotes of an option chain.

        The service has no data type for raw events, so only ``Client.local``, ``Client.demo`` and ``Client.replay``
        have them. ``Lake.scan`` reads them too, but a tape records only what this method returns.

        Parameters
        ----------
        table : str
            Name of a table, e.g. ``"option_quotes"``, ``"book"`` or ``"trades"``; see `tidytape.lake.TABLES`.
        exchange, raw_symbol, coin : str or list of str, optional
            Only rows with these values. ``coin`` is a column of ``option_quotes`` and ``token_supply``.
        start, end : time, optional
            Only rows of this window: ``start`` is inclusive, ``end`` exclusive. The rows must fit into memory.

        Returns
        -------
        frame, one row per event, with the table's key and in its order
            The table's columns. Times that the lake holds as nanoseconds are timestamps in UTC.

        Raises
        ------
        QueryError
            If there is no such table, the table has no such column, or the client has no lake.
        LakeError
            If the lake cannot be read.
        TapeError
            If the client replays a tape that has no answer to it.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     chain = client.events("option_quotes", coin="BTC", start="2024-08-08", end="2024-08-08T01:00")
        >>> chain["timestamp"].n_unique(), chain.schema["expiry"]
        (1, Datetime(time_unit='ns', time_zone='UTC'))
        """
        query = EventsQuery.of(
            table, exchange=exchange, raw_symbol=raw_symbol, coin=coin, start=start, end=end
        )
        frame: FrameT = self._run(self._events(query))
        return frame

    # --- tapes ---

    def record(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> Recording:
        """Record every answer of a study in one folder, the tape, which ``replay`` answers from.

        Use it in a ``with`` statement, or with an ``AsyncClient`` also in ``async with``.

        Parameters
        ----------
        path : path
            The folder of the tape, e.g. ``"study.tape"``.
        overwrite : bool
            Whether to replace the tape that is in the folder already.
        about : mapping, optional
            Facts of the study that a reader of the tape should have, e.g. ``{"seed": 7}``. If the study runs in a git
            repository, the tape also keeps the commit.

        Raises
        ------
        QueryError
            If JSON cannot hold ``about``.
        TapeError
            If the folder exists already and ``overwrite`` is false, it is no tape, it cannot be written, or another
            recording replaces the tape during this one.

        Examples
        --------
        >>> import tempfile, tidytape
        >>> day = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
        >>> with tidytape.Client.demo() as client, tempfile.TemporaryDirectory() as folder:
        ...     with client.record(f"{folder}/study.tape"):
        ...         candles = client.candles(**day)
        ...     with tidytape.Client.replay(f"{folder}/study.tape") as replayed:
        ...         replayed.candles(**day).equals(candles)
        True
        """
        return Recording(self, Path(path), overwrite=overwrite, about=about)

    # --- flows ---

    def _answered(self, query: FetchQuery) -> Flow[tuple[pl.DataFrame, Metadata]]:
        """Fetch the query's window, or read the answer from the tape.

        Return the frame that the client's method returns, and the metadata of that frame.
        """
        query = yield from self._resolved(query)
        window = Window.of(query.queries)
        if self._tape is NO_TAPE:
            answer, metadata = yield from self._window(window)
            return _finished(query, answer, metadata)
        tape, ask = self._tape, _ask_of(window)
        seconds = 0.0  # how long the fetch takes; no time from the tape
        recorded = yield Call(partial(tape.answer_to, ask))
        if recorded is not None:
            answer, entry = recorded
            metadata = Metadata.replayed(window, answer, datetime.fromisoformat(entry.at), entry.facts)
        else:
            began = time.monotonic()
            answer, metadata = yield from self._window(window)
            seconds = round(time.monotonic() - began, 3)
        frame, metadata = _finished(query, answer, metadata)
        facts = metadata.recorded | {"seconds": seconds}
        if query.finish is not None:
            method = query.schema.name.lower().removesuffix("_agg")
            facts["returned"] = {"method": method, "rows": frame.height, "hash": metadata.hash}
        yield Call(partial(tape.add, ask, answer, facts))
        return frame, metadata

    def _window(self, window: Window) -> Flow[tuple[pl.DataFrame, Metadata]]:
        """Fetch a window from the service, or compute it here if the lake is in this process and nothing is cached."""
        points = getattr(self._transport, "points", None)
        if points is None or self._settings.cache is not None:
            return (yield from fetched(self._settings, window))
        if self._closed:
            raise closed_error()
        return (yield from computed(points, window, shows=self._settings.progress))

    def _fetched(self, query: FetchQuery) -> Flow[Fetched[Any]]:
        frame, metadata = yield from self._answered(query)
        if metadata.reason:
            warn_of_empty(metadata.reason)
        return Fetched(self._presented(frame, query.schema), metadata)

    def _resolved(self, query: FetchQuery, *, records: bool = True) -> Flow[FetchQuery]:
        """Return a query with named exchanges and absolute times: those on the tape, or else those of now.

        ``records`` says whether the tape records them.
        """
        if query.is_of_all_exchanges:
            query = query.on((yield from self._exchanges_of(query.queries[0], records=records)))
        if not query.relative:
            return query
        window, tape = Window.of(query.queries), self._tape
        if tape is NO_TAPE:
            return query.over(window.start, window.end)
        ask = {"ask": "window", "params": [*window.params, *query.relative]}
        recorded = yield Call(partial(tape.answer_to, ask, moves_on=records))
        if recorded is not None:
            try:
                start, end = map(int, recorded[0])
            except (TypeError, ValueError):  # a recording writes two integers
                entry = recorded[1].number
                message = f"{tape.replayed}: entry {entry} is damaged: it is no window"
                raise TapeError(message, path=str(tape.replayed), entries=(entry,)) from None
            return query.over(start, end)
        if records:
            yield Call(partial(tape.add, ask, [str(window.start), str(window.end)]))
        return query.over(window.start, window.end)

    def _exchanges_of(self, query: PointsQuery, *, records: bool) -> Flow[list[str]]:
        """Ask which exchanges have the data type of a coin."""
        if self._settings.offline and self._tape is NO_TAPE:
            expected = "names, because an offline client cannot ask which exchanges there are"
            raise QueryError("exchange", got=None, expected=expected)
        filters = MetaQuery(type=query.type, coin=query.coin, category=query.category)
        steps = request.names(self._settings, "exchanges", filters)
        exchanges = yield from self._taped("exchanges", filters, steps, records=records)
        if not exchanges:
            expected = f"a coin of which an exchange has {query.type[0]}"
            raise QueryError("coin", got=list(query.coin), expected=expected, code="INVALID_SYMBOL")
        return exchanges

    def _presented(self, frame: pl.DataFrame, schema: Schema) -> Any:
        """Return a frame as the client's kind of frame; that of an older tape gets the order of this version."""
        frame = schema.arranged(frame)
        return frame if self._backend == "polars" else schema.to_pandas(frame)

    def _fetch_table(self, name: str, query: ListQuery) -> Flow[Any]:
        _, steps, schema = _TABLES[name]
        frame = yield from self._taped(name, query, steps(self._settings, query))
        return self._presented(frame, schema)

    def _taped(
        self,
        name: str,
        query: ListQuery | EventsQuery | None,
        steps: Flow[R],
        *,
        records: bool = True,
    ) -> Flow[R]:
        """Return the recorded answer, or request the answer and record it, unless ``records`` is false."""
        if self._tape is NO_TAPE:
            return (yield from steps)
        ask, tape = {"ask": name, "params": [] if query is None else query.to_params()}, self._tape
        recorded = yield Call(partial(tape.answer_to, ask, moves_on=records))
        if recorded is not None:
            answer: R = recorded[0]
            return answer
        answer = yield from steps
        if records:
            yield Call(partial(tape.add, ask, answer))  # type: ignore[arg-type]  # a frame, names or a usage
        return answer

    def _events(self, query: EventsQuery) -> Flow[Any]:
        def read() -> Flow[pl.DataFrame]:
            lake = getattr(self._transport, "lake", None)
            if lake is not None and self._closed:
                raise closed_error()
            if lake is None:
                raise QueryError(
                    "events",
                    got=f"a client of {self._settings.base_url}",
                    expected="a client of a lake: Client.local(lake) or Client.demo()",
                    hint="the service has no data type for raw events; client.trades(…) fetches trades",
                )
            frame: pl.DataFrame = yield Call(partial(query.read, lake))
            return frame

        frame = yield from self._taped("events", query, read())
        return self._presented(frame, query.schema)

    def _planned(self, several: Sequence[FetchQuery], tier: Tier | None) -> Flow[Plan]:
        windows = []
        for query in several:
            if tier is not None and query.is_of_all_exchanges:
                # A plan for a tier sends nothing, and only the weight of a group depends on the exchanges.
                if query.queries[0].group_by is not None:
                    expected = "names, because a plan for a tier asks no service which exchanges there are"
                    raise QueryError("exchange", got=None, expected=expected)
                windows.append(Window.of(query.queries))
                continue
            resolved = yield from self._resolved(query, records=False)
            windows.append(Window.of(resolved.queries))
        on_tape = yield Call(lambda: [self._tape.has(_ask_of(window)) for window in windows])
        if all(on_tape):
            return Plan(
                tuple(PlanPart(window.query, window.start, window.end, (), ()) for window in windows), 0.0
            )
        return (yield from planned(self._settings, windows, tier))

    def _written(self, query: FetchQuery, path: Path) -> Flow[Written]:
        parts: list[Metadata] = []
        query = yield from self._resolved(query)
        with ParquetFile(path) as file:
            for part in self._parts(query):
                frame, metadata = yield from self._answered(part)
                yield Call(partial(file.write, frame))
                parts.append(metadata)
        warn_of_empty(in_every_part(Window.of(query.queries), [metadata.reason for metadata in parts]))
        requests = sum(metadata.requests for metadata in parts)
        return Written(path, file.rows, requests, sum(metadata.weight for metadata in parts))

    def _frames(self, query: FetchQuery) -> Iterator[Flow[Any]]:
        """Yield a flow for each request of a window; the flow returns a frame. At the end warn of empty markets."""
        reasons: list[tuple[Reason, ...]] = []

        def frame_of(part: FetchQuery) -> Flow[Any]:
            frame, metadata = yield from self._answered(part)
            reasons.append(metadata.reason)
            return self._presented(frame, query.schema)

        yield from map(frame_of, self._parts(query))
        warn_of_empty(in_every_part(Window.of(query.queries), reasons))

    def _parts(self, query: FetchQuery) -> list[FetchQuery]:
        """Split a query into queries of one request each, in the query's order of time; sessions stay together."""
        if query.session is not None:
            return [query]
        window = Window.of(query.queries)
        parts = covering(window, [window.unaligned], burst=self._settings.quota.burst)
        order = window.query.sort_direction
        ordered = parts if order == SortDirection.ASC else parts[::-1]
        return [
            replace(query, queries=(part.model_copy(update={"sort_direction": order}),)) for part in ordered
        ]


class Recording(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    """A context manager in which a client records its answers, for plain code and for asyncio code."""

    def __init__(
        self,
        client: Endpoints[Any, Any, Any, Any, Any, Any, Any, Any],
        path: Path,
        *,
        overwrite: bool,
        about: Mapping[str, Any] | None,
    ) -> None:
        self._client, self._path, self._overwrite, self._about = client, path, overwrite, about

    def __enter__(self) -> None:
        """Begin the tape."""
        client, path = self._client, self._path
        if client._tape is not NO_TAPE:
            raise QueryError("record", got=str(path), expected="to record one tape at a time, and no replay")
        client._tape = Recorder(
            path, base_url=client._settings.base_url, overwrite=self._overwrite, about=self._about
        )

    def __exit__(self, *failure: Any) -> None:
        """Complete the tape."""
        recorder, self._client._tape = self._client._tape, NO_TAPE
        assert isinstance(recorder, Recorder)
        recorder.__exit__(*failure)

    async def __aenter__(self) -> None:
        """Begin the tape."""
        self.__enter__()

    async def __aexit__(self, *failure: Any) -> None:
        """Complete the tape."""
        self.__exit__(*failure)


def _finished(query: FetchQuery, answer: pl.DataFrame, metadata: Metadata) -> tuple[pl.DataFrame, Metadata]:
    """Return the frame that the query's method computes from the service's frame, and the metadata of that frame."""
    if query.finish is None:
        return answer, metadata
    frame = query.finish(travelling(answer, query.queries[0].type[0]))
    if query.session is not None:  # the caller asked for profiles, and the client for minutes
        metadata = replace(metadata, reason=of_type(metadata.reason, "TPO_AGG"))
    return frame, metadata.of(frame)


def _ask_of(window: Window) -> dict[str, Any]:
    """Return a window as the question of a tape."""
    query = window.query.model_copy(update={"start": window.start, "end": window.end})
    return {"ask": "points", "params": query.to_params()}


def query_of(query: Asked) -> FetchQuery:
    """Return the argument of ``fetch`` as a FetchQuery; raise QueryError if it is no query."""
    if isinstance(query, FetchQuery):
        return query
    several = _several(query)
    if several:
        raise QueryError(
            "query",
            got=f"{len(several)} queries",
            expected="one at a time, for each has a frame of its own",
            hint="[client.fetch(one) for one in queries], or with an AsyncClient asyncio.gather(*map(client.fetch, "
            "queries)), fetches them under one budget; client.plan(queries) takes them all",
        )
    window = Window.of(query)
    refuse_ignored(window.query)
    queries = (query,) if isinstance(query, PointsQuery) else tuple(query)
    return FetchQuery.whole(queries)


def each_of(query: Several) -> list[FetchQuery]:
    """Return the queries of a list; for one query, a list of that query."""
    return [query_of(member) for member in _several(query) or [query]]


def _several(query: Any) -> list[Any]:
    """Return the members of a list of queries. Return an empty list for parts of one window and for any other value."""
    if isinstance(query, str) or not isinstance(query, Sequence):
        return []
    if all(isinstance(member, PointsQuery) for member in query):
        return [] if Window.differ_in_time_alone(query) else list(query)
    are_queries = all(isinstance(member, FetchQuery | PointsQuery | list | tuple) for member in query)
    return list(query) if are_queries else []
