"""What a client can be asked, and the flow that answers each of it; defined once for every kind of client.

``Client`` fills the type variables with frames, ``AsyncClient`` with awaitables of frames; the methods, their
parameters and their documentation are the same.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
import polars as pl

from tidytape import wire
from tidytape.client import listing
from tidytape.client.backends import presenter
from tidytape.client.fetching import fetched
from tidytape.client.lists import ListMethods
from tidytape.client.metadata import Metadata
from tidytape.client.planning import Plan, PlanPart, planned
from tidytape.client.progress import Progress
from tidytape.client.reasons import Reason, in_every_part, warn_of_empty
from tidytape.client.series import SeriesMethods, Wanted
from tidytape.client.settings import Backend, Settings
from tidytape.client.steps import Call, Flow
from tidytape.client.tape import NO_TAPE, Recorder, Replayer, Tape
from tidytape.client.window import Window, covering
from tidytape.client.writing import ParquetFile
from tidytape.errors import QueryError, shown
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.schema import BLOCK_SIZES, MARKETS, PREDICTION_MARKETS, Schema, schema_of

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Asked", "Endpoints", "Fetched", "Queries", "Several", "Written", "first", "noting", "wanted_of"]

FrameT = TypeVar("FrameT")
NamesT = TypeVar("NamesT")
UsageT = TypeVar("UsageT")
PlanT = TypeVar("PlanT")
FetchedT = TypeVar("FetchedT")
WrittenT = TypeVar("WrittenT")
R = TypeVar("R")

Asked = Wanted | PointsQuery | Sequence[PointsQuery]
"""What can be planned and fetched: what a method of ``client.query`` returns, or queries that adjoin."""

Several = Asked | Sequence[Asked]
"""What can be planned: one of these, or several under one budget."""

_TABLES: Mapping[str, tuple[Callable[[Settings, Any], Flow[pl.DataFrame]], Schema]] = MappingProxyType(
    {
        "markets": (listing.markets, MARKETS),
        "prediction-markets": (listing.prediction_markets, PREDICTION_MARKETS),
        "block-sizes": (listing.block_sizes, BLOCK_SIZES),
    }
)


@dataclass(frozen=True, slots=True, repr=False)
class Fetched(Generic[FrameT]):
    """A frame, and what its fetch was.

    Attributes
    ----------
    frame : frame
        As the method of that name returns it.
    metadata : Metadata
        What was asked, what it cost, what was kept from before, what is missing, and the frame's hash.
    """

    frame: FrameT
    metadata: Metadata

    def __repr__(self) -> str:
        """Return what it was on one line, and the frame as it shows itself."""
        return f"<Fetched {self.metadata!r}>\n{self.frame!r}"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it: what it was, and the frame."""
        shown: str = self.frame._repr_html_()  # type: ignore[attr-defined]  # polars and pandas have it
        return self.metadata._repr_html_() + shown


@dataclass(frozen=True, slots=True)
class Written:
    """What was written to a file.

    Attributes
    ----------
    path : Path
        The file.
    rows : int
        How many rows it has.
    requests : int
        How many requests were sent, as in `Metadata`.
    weight : int
        What they weighed together, as in `Metadata`. [weight]
    """

    path: Path
    rows: int
    requests: int
    weight: int


class Queries(SeriesMethods[Wanted]):
    """The methods of a client, each returning what it would ask for; nothing is sent.

    Examples
    --------
    >>> asked = Queries().candles(exchange="X", coin="BTC", interval="1m", start=0, end=250_000 * 60)
    >>> [one.points for one in asked.queries]
    [100000, 100000, 50000]
    """

    def _points(self, wanted: Wanted) -> Wanted:
        return wanted


class Endpoints(
    SeriesMethods[FrameT],
    ListMethods[FrameT, NamesT, UsageT],
    Generic[FrameT, NamesT, UsageT, PlanT, FetchedT, WrittenT],
):
    """What can be asked of the service. All arguments are keyword-only.

    Windows are half-open: ``start`` belongs to them, ``end`` does not. Times are epoch seconds, datetimes, dates or
    ISO 8601 strings; what has no zone is UTC. A candle or profile belongs to the window when its interval starts in it:
    a window from 23:50 to 00:05 has one hour in it, that of midnight. A window longer than one request may cover is
    fetched in several, and the client waits where the budget of the key is used up.
    """

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self._settings = settings
        self._backend = backend
        self._present = presenter(backend)
        self._tape: Tape = NO_TAPE

    def __repr__(self) -> str:
        """Return the address, or the tape that is replayed, and the backend, never the key."""
        if isinstance(self._tape, Replayer):
            return f"{type(self).__name__}.replay({str(self._tape.path)!r}, backend={self._backend!r})"
        return f"{type(self).__name__}({self._settings.base_url!r}, backend={self._backend!r})"

    @abstractmethod
    def _run(self, steps: Flow[Any]) -> Any:
        """Carry out a flow for a caller: return what it returns, or an awaitable of that."""

    def _framed(self, steps: Flow[pl.DataFrame], schema: Schema) -> Flow[Any]:
        """Give the frame of a flow the kind that the caller wants."""
        frame = yield from steps
        return self._present(frame, schema)

    # --- the methods of every kind of data and list go through these ---

    def _points(self, wanted: Wanted) -> FrameT:
        frame: FrameT = self._run(self._framed(first(_warning(self._answered(wanted))), wanted.schema))
        return frame

    def _names(self, name: str, query: MetaQuery) -> NamesT:
        names: NamesT = self._run(self._taped(name, query, listing.names(self._settings, name, query)))
        return names

    def _table(self, name: str, query: MetaQuery | MarketsQuery) -> FrameT:
        steps, schema = _TABLES[name]
        frame: FrameT = self._run(
            self._framed(self._taped(name, query, steps(self._settings, query)), schema)
        )
        return frame

    def _usage(self) -> UsageT:
        usage: UsageT = self._run(self._taped("usage", None, listing.usage(self._settings)))
        return usage

    # --- whatever is asked ---

    @property
    def query(self) -> Queries:
        """The same methods, each returning what it would ask for: to plan it, or to fetch it in another way.

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

    def points(self, query: Asked) -> FrameT:
        """Fetch whatever is asked: one request, or several that adjoin.

        Parameters
        ----------
        query : PointsQuery
            Of one data type.

        Returns
        -------
        frame
            In the schema of the data type; rows by series, then time, then price.

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> query = tidytape.PointsQuery(
        ...     type="TRADE_AGG", exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-07", end="2024-08-09"
        ... )
        >>> with tidytape.Client.demo() as client:
        ...     client.points(query)["side"].unique().sort().to_list()
        ['BUY', 'SELL']
        """
        return self._points(wanted_of(query))

    def plan(self, query: Several) -> PlanT:
        """Return what fetching would send and cost as things stand: nothing that weighs anything is sent.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or a list of any of these
            A list is planned as fetches under one budget, whatever kinds of data are in it; queries that differ in time
            alone are parts of one window.

        Returns
        -------
        Plan
            Requests, weight, time under the current budget, and what the cache has: of all, and in ``parts`` of each. A
            notebook shows it as a table. What is on a tape that is replayed takes no request.

        Raises
        ------
        QueryError
            If it is nothing that can be fetched, or the queries of one window leave a gap.
        BudgetError
            If not even a thousand points can be asked for at once.
        TapeError
            If the client replays a tape that has no answer to it.

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
        """
        windows = [Window.of(one.queries) for one in each_of(query)]
        tape = self._tape
        plan: PlanT = self._run(
            _replayed(tape, windows) if isinstance(tape, Replayer) else planned(self._settings, windows)
        )
        return plan

    def fetch(self, query: Asked) -> FetchedT:
        """Fetch a frame together with what its fetch was.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or several that adjoin

        Returns
        -------
        Fetched
            ``frame``, as the method of that name returns it, and ``metadata``: requests, weight, spans from the cache,
            spans that are missing (with ``partial="flag"``), and the hash of the frame.

        Raises
        ------
        TidytapeError
            As for the method of that name.

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
        wanted = wanted_of(query)

        def fetching() -> Flow[Fetched[Any]]:
            frame, metadata = yield from _warning(self._answered(wanted))
            return Fetched(self._present(frame, wanted.schema), metadata)

        found: FetchedT = self._run(fetching())
        return found

    def to_parquet(self, query: Asked, path: str | os.PathLike[str]) -> WrittenT:
        """Fetch into a Parquet file, one request after the other, so that the window may be larger than memory.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or several that adjoin
        path : path
            The file. It is written under another name first: what bears the name asked for is whole.

        Returns
        -------
        Written
            Rows, requests and weight. Rows are in the order of time from request to request, and in the order of the
            frame within one.

        Raises
        ------
        TidytapeError
            As for the method of that name. What was fetched until then is in the cache.

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
        written: WrittenT = self._run(self._written(wanted_of(query), Path(path)))
        return written

    # --- tapes ---

    def record(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Recording:
        """Keep every answer of a study in one file, from which ``replay`` gives them again.

        It is for ``with``, and with an ``AsyncClient`` for ``async with`` too.

        Parameters
        ----------
        path : path
            The tape, e.g. ``"study.tape"``.
        overwrite : bool
            Whether a tape that is there is replaced.

        Raises
        ------
        TapeError
            If there is one, or one is being recorded already.

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
        return Recording(self, path, overwrite=overwrite)

    def _begin(self, path: str | os.PathLike[str], *, overwrite: bool) -> Recorder:
        if self._tape is not NO_TAPE:
            raise QueryError("record", got=str(path), expected="to record one tape at a time, and no replay")
        recorder = Recorder(path, base_url=self._settings.base_url, overwrite=overwrite)
        self._tape = recorder
        return recorder

    def _end(self) -> None:
        self._tape = NO_TAPE

    # --- flows ---

    def _answered(self, wanted: Wanted) -> Flow[tuple[pl.DataFrame, Metadata]]:
        """Fetch a window, or take it from the tape; a study gets the same answers either way."""
        window, tape = Window.of(wanted.queries), self._tape
        ask = _ask_of(window)
        known = yield Call(partial(tape.found, ask))
        if known is not None:
            answer, entry = known
            metadata = Metadata.replayed(window, answer, datetime.fromisoformat(entry.at), entry.told)
        else:
            progress = Progress(window.data_type, wanted=self._settings.progress)
            answer, metadata = yield from fetched(self._settings, window, progress)
        frame = answer
        if wanted.finish is not None:
            frame = wanted.finish(answer)
            metadata = metadata.of(frame)
        if known is None:
            told: dict[str, Any] = {
                "requests": metadata.requests,
                "weight": metadata.weight,
                "missing": metadata.missing,
                "is_whole": metadata.is_whole,
                "notes": orjson.loads(wire.write_notes(one.note for one in metadata.reason)),
            }
            if wanted.finish is not None:
                method = wanted.schema.name.lower()
                told["returned"] = {"method": method, "rows": frame.height, "hash": metadata.hash}
            yield Call(partial(tape.add, ask, answer, told))
        return frame, metadata

    def _taped(self, name: str, query: MetaQuery | MarketsQuery | None, steps: Flow[R]) -> Flow[R]:
        ask, tape = {"ask": name, "params": [] if query is None else query.to_params()}, self._tape
        known = yield Call(partial(tape.found, ask))
        if known is not None:
            answered: R = known[0]
            return answered
        answered = yield from steps
        yield Call(partial(tape.add, ask, answered))  # type: ignore[arg-type]  # a frame, names or a usage
        return answered

    def _written(self, wanted: Wanted, path: Path) -> Flow[Written]:
        requests = weight = 0
        reasons: list[tuple[Reason, ...]] = []
        with ParquetFile(path) as file:
            for part in self._parts(wanted):
                frame, metadata = yield from noting(reasons, self._answered(part))
                yield Call(partial(file.write, frame))
                requests, weight = requests + metadata.requests, weight + metadata.weight
        warn_of_empty(in_every_part(Window.of(wanted.queries), reasons))
        return Written(path, file.rows, requests, weight)

    def _parts(self, wanted: Wanted) -> list[Wanted]:
        """Return a window in parts of one request each, in the order of time that was asked for."""
        window = Window.of(wanted.queries)
        parts = covering(window, [(window.start, window.end)], burst=self._settings.quota.burst)
        order = window.query.sort_direction
        turned = parts if order == "SORT_DIRECTION_ASC" else parts[::-1]
        return [
            Wanted((one.model_copy(update={"sort_direction": order}),), wanted.schema, wanted.finish)
            for one in turned
        ]


class Recording(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    """The time in which a client records, for plain and for asyncio code; nothing of it waits."""

    def __init__(
        self,
        client: Endpoints[Any, Any, Any, Any, Any, Any],
        path: str | os.PathLike[str],
        *,
        overwrite: bool,
    ) -> None:
        self._client, self._path, self._overwrite = client, path, overwrite
        self._tape: Recorder | None = None

    def __enter__(self) -> None:
        """Begin the tape."""
        self._tape = self._client._begin(self._path, overwrite=self._overwrite)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the tape whole."""
        assert self._tape is not None
        self._client._end()
        self._tape.__exit__(kind, error, trace)

    async def __aenter__(self) -> None:
        """Begin the tape."""
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the tape whole."""
        self.__exit__(kind, error, trace)


def _ask_of(window: Window) -> dict[str, Any]:
    """Return a window as a tape asks for it."""
    whole = window.query.model_copy(update={"start": window.start, "end": window.end})
    return {"ask": "points", "params": whole.to_params()}


def _replayed(tape: Replayer, windows: Sequence[Window]) -> Flow[Plan]:
    """Plan what a tape has the answers to: nothing will be sent."""
    for window in windows:
        yield Call(partial(tape.check, _ask_of(window)))
    return Plan(tuple(PlanPart(one.query, one.start, one.end, (), ()) for one in windows), 0.0)


def wanted_of(query: Asked) -> Wanted:
    """Return what is asked, in whatever form it was given."""
    if isinstance(query, Wanted):
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
    many: object = query  # whatever a caller without types gives
    if not isinstance(many, PointsQuery) and not (
        isinstance(many, Sequence) and many and all(isinstance(one, PointsQuery) for one in many)
    ):
        raise QueryError(
            "query",
            got=_called(many),
            expected="what a method of client.query returns, e.g. client.query.candles(...)",
            message=f"query: got {_called(many)}, expected what a method of client.query returns, e.g. "
            "client.query.candles(...), or a PointsQuery",
        )
    window = Window.of(query)
    queries = (query,) if isinstance(query, PointsQuery) else tuple(query)
    return Wanted(queries, schema_of(window.data_type, grouped=window.query.group_by is not None))


def _called(given: object) -> str:
    """Return what something is, and not what is in it: a frame has many lines."""
    if given is None or isinstance(given, str | int | float):
        return shown(given)
    kind = type(given).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    if isinstance(given, Sized) and not len(given):
        return f"an empty {kind}"
    odd = (
        next((one for one in given if not isinstance(one, PointsQuery)), None)
        if isinstance(given, list)
        else None
    )
    return f"{article} {kind}" + ("" if odd is None else f" with {_called(odd)}")


def each_of(query: Several) -> list[Wanted]:
    """Return what is asked, one after the other."""
    return [wanted_of(one) for one in _several(query) or [query]]


def _several(query: Any) -> list[Any]:
    """Return what has frames of its own in a list; nothing where it is the parts of one window, or no such list."""
    if isinstance(query, str) or not isinstance(query, Sequence):
        return []
    if all(isinstance(one, PointsQuery) for one in query):
        return [] if Window.differ_in_time_alone(query) else list(query)
    is_asked = all(isinstance(one, Wanted | PointsQuery | list | tuple) for one in query)
    return list(query) if is_asked else []


def noting(
    reasons: list[tuple[Reason, ...]], steps: Flow[tuple[pl.DataFrame, Metadata]]
) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Add what a fetch says of markets without points to the reasons of the parts before."""
    frame, metadata = yield from steps
    reasons.append(metadata.reason)
    return frame, metadata


def _warning(steps: Flow[tuple[pl.DataFrame, Metadata]]) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Run a fetch, then warn of markets whose points are missing because the service lacks the data."""
    frame, metadata = yield from steps
    warn_of_empty(metadata.reason)
    return frame, metadata


def first(steps: Flow[tuple[pl.DataFrame, Metadata]]) -> Flow[pl.DataFrame]:
    """Return the frame alone."""
    frame, _ = yield from steps
    return frame
