"""Any delimited file of trades."""

from __future__ import annotations

import deltalake
import pytest

from ingested import ingest
from lakes import empty_lake
from tidytape.errors import IngestError, LakeError, QueryError
from tidytape.lake import LakeWriter

HEAD = "id,timestamp,side,price,amount"
DAY = 1_693_929_600  # 2023-09-05 16:00 UTC
NS = 10**9


def take(path, lake, **options):
    options = {"exchange": "COINBASE", "raw_symbol": "BTC-USD", **options}
    return ingest(path, lake, layout="csv", **options)


def row(number, **changes):
    fields = {"id": number, "timestamp": DAY + number, "side": "buy", "price": 100.5, "amount": 2} | changes
    return ",".join(str(value) for value in fields.values())


def stored(lake, *columns):
    return lake.scan("trades").sort("timestamp", "sequence").select(columns).collect().rows()


@pytest.mark.parametrize("packed", [False, True])
def test_a_row_is_kept_in_full(write, lake, packed):
    report = take(write(HEAD, row(7), packed=packed), lake)
    assert lake.scan("trades").collect().to_dicts() == [
        {
            "exchange": "COINBASE", "raw_symbol": "BTC-USD", "id": "7", "timestamp": (DAY + 7) * NS, "sequence": 7,
            "side": "BUY", "price": 100.5, "amount": 2.0, "quote_amount": 201.0, "received": None,
        }
    ]  # fmt: skip
    assert report.files[0].time_unit == "s"
    assert report.files[0].lines == 1


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoted", [False, True])
def test_columns_are_mapped(write, lake, delimiter, quoted):
    fields = [
        ("px", "100.5"),
        ("a note", "x"),
        ("tid", "abc-1"),
        ("time", "2023-09-05T16:00:00Z"),
        ("qty", "2"),
    ]
    fields.append(("dir", "S"))
    lines = [
        delimiter.join(f'"{cell}"' if quoted else cell for cell in cells)
        for cells in zip(*fields, strict=True)
    ]
    columns = {"id": "tid", "price": "px", "amount": "qty", "side": "dir", "timestamp": "time"}
    take(write(*lines), lake, columns=columns)
    assert stored(lake, "id", "timestamp", "sequence", "side", "price", "amount") == [
        ("abc-1", DAY * NS, 2, "SELL", 100.5, 2.0)
    ]


def test_a_given_delimiter_is_taken(write, lake):
    take(write(HEAD.replace(",", "^"), row(1).replace(",", "^")), lake, delimiter="^")
    assert stored(lake, "id") == [("1",)]


@pytest.mark.parametrize(
    ("header", "value", "side"),
    [
        ("side", "buy", "BUY"), ("side", "SELL", "SELL"), ("side", "B", "BUY"), ("side", "s", "SELL"),
        ("side", " Buy ", "BUY"),
        ("buyer_is_maker", "true", "SELL"), ("buyer_is_maker", "False", "BUY"), ("buyer_is_maker", "1", "SELL"),
        ("buyer_is_maker", "0", "BUY"), ("buyer_is_maker", "T", "SELL"),
    ],
)  # fmt: skip
def test_words_for_a_side(write, lake, header, value, side):
    take(write(HEAD.replace("side", header), row(1, side=value)), lake)
    assert stored(lake, "side") == [(side,)]


BAD = {
    "a side of neither": {"side": "bid"},
    "no side": {"side": ""},
    "no price": {"price": ""},
    "a word for a price": {"price": "cheap"},
    "thousands": {"price": '"1,000.5"'},
    "nan": {"price": "nan"},
    "infinite": {"price": "inf"},
    "amount 0": {"amount": "0"},
    "amount below 0": {"amount": "-2"},
    "infinite amount": {"amount": "1e999"},
    "no amount": {"amount": ""},
    "no time": {"timestamp": ""},
    "another unit": {"timestamp": (DAY + 5) * 1000},
    "a written time among numbers": {"timestamp": "2023-09-05T16:00:00Z"},
    "no id": {"id": ""},
    "a leap second": {"timestamp": "2023-09-05T23:59:60Z"},
    "a quote that does not end": {"id": '"5'},
    "a quote in the wrong place": {"id": '"5"x'},
    "a column too many": {"amount": "2,3"},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_a_broken_line_is_named_and_nothing_is_stored(write, lake, what):
    path = write(HEAD, row(1), "", row(2), row(5, **BAD[what]), row(3))
    version = lake.version()
    with pytest.raises(IngestError, match="log:5: ") as caught:
        take(path, lake)
    assert (caught.value.path, caught.value.line, caught.value.bad_lines) == (str(path), 5, 1)
    assert lake.version() == version
    report = take(path, lake, skip_bad=True)
    assert (report.trades_new, report.bad_lines, report.files[0].first_bad_lines[0][0]) == (3, 1, 5)
    assert stored(lake, "id") == [("1",), ("2",), ("3",)]


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_short_line_is_bad_wherever_it_is(write, lake, place):
    lines = [row(1), row(2)]
    lines.insert(place - 1, f"9,{DAY},buy")
    with pytest.raises(IngestError) as caught:
        take(write(HEAD, *lines), lake)
    assert caught.value.line == place + 1


def test_many_broken_lines_are_counted(write, lake):
    lines = [row(n) if n % 3 else row(n) + ",extra" for n in range(1, 3001)]
    report = take(write(HEAD, *lines), lake, skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (2000, 1000)


def test_a_unit_that_cannot_be_told_must_be_given(write, lake):
    path = write(HEAD, row(1, timestamp=12))
    with pytest.raises(IngestError, match=r"the timestamp '.*' is not a written date and time"):
        take(path, lake)
    with pytest.raises(IngestError, match=r"the timestamp '.*' is not an epoch time in ms"):
        take(write(HEAD, row(1)), lake, time_unit="ms")
    with pytest.raises(QueryError, match="time_unit"):
        take(path, lake, time_unit="minutes")


# -- order and identity ----------------------------------------------------------------------------------------------


def test_the_line_orders_trades_of_one_time_where_ids_do_not(write, lake):
    lines = [row(n, timestamp=DAY, id=f"x{9 - n}", price=n) for n in (1, 2, 3)]
    take(write(HEAD, *lines), lake)
    assert stored(lake, "price", "sequence") == [(1.0, 2), (2.0, 3), (3.0, 4)]


def cut(rows, *lengths):
    """The rows as one piece of each length."""
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    return [rows[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def opening_and_close(lake):
    from tidytape.aggregate import candles

    def asked():
        return candles(lake.scan("trades"), interval="1m").select("open", "close").collect().row(0)

    first = asked()
    deltalake.DeltaTable(f"{lake.path}/trades").optimize.compact()
    assert asked() == first
    trades = lake.scan("trades").select("timestamp", "sequence").collect()
    assert not trades.is_duplicated().any()
    return first


@pytest.mark.long
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", [None, "x{}"])
@pytest.mark.parametrize(
    "order", ["oldest first", "newest first", "pieces newest first", "lines newest first"]
)
@pytest.mark.parametrize("lengths", [(6, 8, 6), (10, 10)])
def test_a_tape_cut_into_files_is_put_together_again(write, lake, together, name, order, lengths):
    # 20 trades, four to a second, and every cut goes through one.
    rows = [row(n, timestamp=DAY + n // 4, id=(name or "x").format(n), price=100 + n) for n in range(20)]
    lines = rows if name else without_id(*rows)[1:]
    lines = lines[::-1] if order == "newest first" else lines
    pieces = cut(lines, *lengths)
    if order == "pieces newest first":
        pieces = pieces[::-1]
    elif order == "lines newest first":
        pieces = [piece[::-1] for piece in pieces]
    files = [
        write(HEAD if name else NO_ID, *piece, name=f"{place}.csv") for place, piece in enumerate(pieces)
    ]
    for some in [files] if together else files:
        take(some, lake)
    assert opening_and_close(lake) == (100.0, 119.0)
    assert [price for (price,) in stored(lake, "price")] == [100.0 + n for n in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_pieces_of_one_timestamp_are_in_the_order_they_are_added(write, lake, together):
    lines = without_id(*(row(n, timestamp=DAY, price=100 + n) for n in range(12)))[1:]
    files = [write(NO_ID, *piece, name=f"{place}") for place, piece in enumerate(cut(lines, 7, 3, 2))]
    for some in [files] if together else files:
        take(some, lake)
    assert opening_and_close(lake) == (100.0, 111.0)


@pytest.mark.slow
def test_an_overlapping_export_goes_on_where_the_lake_stopped(write, lake):
    lines = without_id(*(row(n, timestamp=DAY + n // 4, price=100 + n) for n in range(12)))[1:]
    take(write(NO_ID, *lines[:6], name="a"), lake)
    assert take(write(NO_ID, *lines[3:], name="b"), lake).trades_new == 6
    assert opening_and_close(lake) == (100.0, 111.0)


@pytest.mark.slow
def test_a_gap_is_filled_in_its_place(write, lake):
    lines = without_id(*(row(n, timestamp=DAY + n // 4, price=100 + n) for n in range(18)))[1:]
    first, middle, last = cut(lines, 6, 5, 7)
    for name, piece in (("a", first), ("c", last), ("b", middle)):
        take(write(NO_ID, *piece, name=name), lake)
    opening_and_close(lake)
    assert [price for (price,) in stored(lake, "price")] == [100.0 + n for n in range(18)]


@pytest.mark.slow
def test_each_market_is_counted_on_by_itself(write, lake):
    head, symbols = "raw_symbol," + NO_ID, ("BTC-USD", "ETH-USD")
    for name in ("a", "b"):
        lines = [
            f"{symbol},{line}"
            for symbol in symbols
            for line in without_id(row(1, price=ord(name)), row(1, price=ord(name) + 0.5))[1:]
        ]
        take(write(head, *lines, name=name), lake, raw_symbol=None)
    for symbol in symbols:
        trades = lake.scan("trades", raw_symbol=symbol).sort("sequence").collect()
        assert trades["price"].to_list() == [97.0, 97.5, 98.0, 98.5]
        assert trades["sequence"].n_unique() == 4


@pytest.mark.parametrize(
    ("ids", "sequence"),
    [
        (["999999999999999999", "1000000000000000000"], [999999999999999999, 1000000000000000000]),
        (["0", "9223372036854775807"], [0, 2**63 - 1]),
        (["5", "9223372036854775808"], [2, 3]),  # no integer of 64 bits: then none of them
        (["5", "x"], [2, 3]),
        (["1", "01"], [2, 3]),
        (["5", "-4"], [2, 3]),
    ],
)
def test_the_order_is_by_id_or_by_line_and_never_by_both(write, lake, monkeypatch, ids, sequence):
    from tidytape.lake.ingest import _lines

    monkeypatch.setattr(_lines, "BLOCK", 64)  # each line is a block of its own
    take(write(HEAD, *(row(1, id=identity) for identity in ids)), lake)
    assert stored(lake, "id", "sequence") == list(zip(ids, sequence, strict=True))


def test_in_a_file_with_the_newest_first_the_line_orders_from_the_end(write, lake):
    lines = [row(n, timestamp=DAY + (n > 3), id=f"x{n}", price=n) for n in (5, 4, 3, 2, 1)]
    take(write(HEAD, *lines), lake)
    assert [price for price, _ in stored(lake, "price", "sequence")] == [1.0, 2.0, 3.0, 4.0, 5.0]


NO_ID = "timestamp,side,price,amount"


def without_id(*rows):
    return [NO_ID, *(line.split(",", 1)[1] for line in rows)]


@pytest.mark.slow
def test_without_ids_identical_rows_are_all_kept_and_reexports_add_nothing(write, lake):
    same = [row(1), row(1), row(2), row(1)]
    assert take(write(*without_id(*same), name="a"), lake).trades_new == 4
    again = [row(1, price="100.50"), row(2), row(1), row(1, amount="2.0"), row(3)]
    report = take(write(*without_id(*again), name="b"), lake)
    assert (report.trades_new, report.trades_read) == (1, 5)
    assert take(write(*without_id(row(1), row(1), row(1), row(1)), name="c"), lake).trades_new == 1


def test_a_made_id_never_changes(write, lake):
    # Stored lakes hold these: another spelling would add every trade again.
    rows = [
        row(1, price="0.00003844", amount="1e-7"),
        row(2, price="25741.02", amount="3.844E-5", side="sell"),
        row(3, price="1e22", amount="5"),
    ]
    take(write(*without_id(*rows)), lake)
    assert [identity for (identity,) in stored(lake, "id")] == [
        "1693929601000000000/0.00003844/1e-7/BUY/0",
        "1693929602000000000/25741.02/0.00003844/SELL/0",
        "1693929603000000000/1e+22/5.0/BUY/0",
    ]


@pytest.mark.slow
def test_identical_rows_are_numbered_across_blocks(write, lake, monkeypatch):
    from tidytape.lake.ingest import _lines

    lines = [row(1)] * 50 + [row(2)] * 50
    monkeypatch.setattr(_lines, "BLOCK", 256)
    assert take(write(*without_id(*lines)), lake).trades_new == 100
    monkeypatch.undo()
    assert take(write(*without_id(*lines, row(3)), name="b"), lake).trades_new == 1


@pytest.mark.slow
def test_the_same_file_read_otherwise_is_another_source(write, lake):
    path = write("t,side,price,amount,other", f"{DAY},buy,1,2,3")
    take(path, lake, columns={"timestamp": "t"})
    assert take(path, lake, columns={"timestamp": "t"}).files[0].already_ingested
    assert take(path, lake, columns={"timestamp": "t", "amount": "other"}).trades_new == 1
    assert take(path, lake, columns={"timestamp": "t"}, raw_symbol="ETH-USD").trades_new == 1


# -- what is asked of the caller -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        (
            HEAD,
            {"columns": {"price": "prize"}},
            r"columns: got 'prize', expected for price one of the columns of .*did you mean 'price'",
        ),
        (HEAD, {"columns": {"prices": "price"}}, r"columns: got 'prices', .*did you mean 'price'"),
        ("id,timestamp,side,price", {}, "amount mapped to one of"),
        ("id,timestamp,price,amount", {}, "side or buyer_is_maker mapped"),
        ("id,side,timestamp,price,price,amount", {"columns": {"price": "price"}}, "columns: got 'price'"),
        (HEAD, {"raw_symbol": None}, "raw_symbol: left out"),
        (HEAD, {"exchange": " "}, "exchange"),
        (HEAD, {"exchange": "a\tb"}, "exchange: got"),
        (HEAD, {"raw_symbol": "a\nb"}, "raw_symbol: got"),
        (HEAD, {"raw_symbol": "L" * 300}, "raw_symbol: got"),
        (HEAD, {"raw_symbol": "é" * 200}, "raw_symbol: got .* at most 244 bytes"),
        (HEAD, {"raw_symbol": "__HIVE_DEFAULT_PARTITION__"}, "raw_symbol: got .*stands for none"),
        (HEAD, {"normalized_symbol": "---"}, "normalized_symbol: got '---'"),
        (HEAD, {"normalized_symbol": "-USD"}, "normalized_symbol: got '-USD'"),
        (HEAD, {"coin": "\x00"}, "coin: got"),
        (HEAD, {"delimiter": "||"}, "delimiter: got"),
        (HEAD, {"delimiter": "€"}, "delimiter: got"),
        (HEAD, {"delimiter": '"'}, "delimiter: got"),
        (HEAD, {"delimiter": ""}, "delimiter: got"),
        (HEAD, {"block_size": "1e-30"}, "block_size: got '1e-30'"),
        (HEAD, {"block_size": "1e400"}, "block_size: got '1e400'"),
        (HEAD, {"block_size": "1.2345678901234567"}, "block_size: got .* at most 15 digits"),
        (HEAD, {"tick_size": "1e-400"}, "tick_size: got '1e-400'"),
        (HEAD, {"tick_size": "1e999999999"}, "tick_size: got"),
        (HEAD, {"tick_size": "inf"}, "tick_size: got"),
        (HEAD, {"category": "SPOTS"}, "(?i)did you mean 'spot'"),
        (HEAD, {"tick_size": 0}, "tick_size"),
        (HEAD, {"block_size": "x"}, "block_size"),
        (HEAD, {"layout": "cvs"}, "did you mean 'csv'"),
        (
            HEAD,
            {"raw_symbol": "WHATEVER"},
            "quote: left out, expected the currency of WHATEVER.*normalized_symbol",
        ),
    ],
)
def test_what_cannot_be_right_is_named(write, lake, header, options, message):
    line = ",".join("1" if name != "side" else "buy" for name in header.split(",")).replace("1", str(DAY))
    options = {"layout": "csv", "exchange": "X", "raw_symbol": "BTC-USD", **options}
    version = lake.version()
    with pytest.raises(QueryError, match=message):
        ingest(write(header, line), lake, **options)
    assert lake.version() == version


def test_a_tab_may_be_given_as_a_shell_passes_it_on(write, lake):
    take(write(HEAD.replace(",", "\t"), row(1).replace(",", "\t")), lake, delimiter="\\t")
    assert stored(lake, "id") == [("1",)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            (HEAD + ",größe\n" + row(1) + ",2\n").encode("latin-1"),
            "x:1: the header cannot be read: not UTF-8",
        ),
        (
            b"\xff\xfe\0\xd8" + f"{HEAD}\n{row(1)}\n".encode("utf-16-le"),  # half a pair of code units
            "x:1: the header cannot be read: not UTF-8",
        ),
        (f"{HEAD}\r{row(1)}\r".encode(), "x:1: the header cannot be read: it holds a bare carriage return"),
    ],
)
@pytest.mark.parametrize("skip_bad", [True, False])
def test_a_header_that_cannot_be_read_is_not_passed_over(tmp_path, lake, data, message, skip_bad):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(IngestError, match=message) as caught:
        take(tmp_path / "x", lake, skip_bad=skip_bad)
    assert (caught.value.line, caught.value.bad_lines) == (1, 1)


@pytest.mark.parametrize("symbol", ["B\tTC-USD", "B" * 250, "é" * 100, "__HIVE_DEFAULT_PARTITION__"])
def test_a_symbol_that_could_never_be_asked_for_is_a_bad_line(write, lake, symbol):
    path = write("symbol," + HEAD, "BTC-USD," + row(1), f"{symbol}," + row(2))
    options = {"raw_symbol": None, "columns": {"raw_symbol": "symbol"}}
    with pytest.raises(IngestError, match="log:3: the symbol"):
        take(path, lake, **options)
    assert take(path, lake, **options, skip_bad=True).bad_lines == 1


def test_names_are_trimmed(write, lake):
    take(write(HEAD, row(1)), lake, exchange=" X ", raw_symbol=" BTC-USD ", coin=" BTC ")
    assert lake.markets().select("exchange", "raw_symbol", "coin").rows() == [("X", "BTC-USD", "BTC")]


@pytest.mark.slow
@pytest.mark.parametrize("price", ["1e40", "1e300", "5e-324", "1e20", "-5", "0"])
def test_a_price_that_no_profile_can_be_made_of_leaves_the_block_size_open(write, lake, price):
    said = {"category": "future"}  # the others have prices above 0
    assert take(write(HEAD, row(1, price=price)), lake, **said).markets[0].block_size is None
    assert take(write(HEAD, row(2), name="b"), lake, **said).markets[0].block_size == 0.005


@pytest.mark.parametrize("price", ["-100", "0"])
@pytest.mark.parametrize("category", [None, "spot", "perpetual"])
def test_a_price_is_above_zero_unless_the_market_is_a_future(write, lake, price, category):
    with pytest.raises(IngestError, match=f":2: the price '{price}' is not a finite number above 0"):
        take(write(HEAD, row(1, price=price)), lake, category=category)


def test_price_times_amount_is_a_number(write, lake):
    with pytest.raises(IngestError, match=":3: price times amount is more than a number can hold"):
        take(write(HEAD, row(1), row(2, price="1e200", amount="1e200")), lake)


@pytest.mark.slow
def test_a_failed_commit_leaves_no_market_and_can_be_repeated(write, lake, monkeypatch):
    path = write(HEAD, row(1))
    append = LakeWriter.append

    def full(*_, **__):
        raise LakeError("no space left on device")

    monkeypatch.setattr(LakeWriter, "append", full)
    with pytest.raises(LakeError, match="no space"):
        take(path, lake)
    assert lake.markets().is_empty()
    monkeypatch.setattr(LakeWriter, "append", append)
    # Dead between the last two commits: the trades are there, their market is not.
    register = LakeWriter.register
    monkeypatch.setattr(LakeWriter, "register", full)
    with pytest.raises(LakeError, match="no space"):
        take(path, lake)
    monkeypatch.setattr(LakeWriter, "register", register)
    assert (lake.scan("trades").collect().height, lake.markets().height) == (1, 0)
    report = take(path, lake)
    assert (report.trades_new, report.files[0].already_ingested, report.markets[0].coin) == (0, True, "BTC")
    version = lake.version()
    assert take(path, lake).files[0].already_ingested
    assert lake.version() == version


@pytest.mark.slow
def test_several_markets_in_one_file(write, lake):
    lines = ["symbol," + HEAD, "BTC-USD," + row(1), "ETH-USD," + row(1, price=50), "BTC-USD," + row(2)]
    path = write(*lines)
    report = take(path, lake, raw_symbol=None, columns={"raw_symbol": "symbol"})
    assert [market.raw_symbol for market in report.markets] == ["BTC-USD", "ETH-USD"]
    only = take(path, lake, raw_symbol="ETH-USD", exchange="OTHER", columns={"raw_symbol": "symbol"})
    assert (only.trades_new, only.files[0].ignored) == (1, (("trade of another market", 2),))


# -- the registry ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_block_size_is_decided_once(write, lake):
    assert take(write(HEAD, row(1, price=61837), name="a"), lake).markets[0].block_size == 2.0
    assert take(write(HEAD, row(2, price=9), name="b"), lake).markets[0].block_size == 2.0
    given = take(write(HEAD, row(3), name="c"), lake, block_size="0.25", tick_size="0.01")
    assert (given.markets[0].block_size, given.markets[0].guessed) == (0.25, False)
    assert lake.markets().select("tick_size", "available_since").rows() == [(0.01, (DAY + 1) * NS)]


@pytest.mark.slow
def test_names_that_are_given_win(write, lake):
    path = write(HEAD, row(1))
    take(path, lake, raw_symbol="WHATEVER", normalized_symbol="WHAT-EUR")
    row_ = lake.markets().row(0, named=True)
    assert (row_["coin"], row_["quote_coin"], row_["category"]) == ("WHAT", "EUR", "SPOT")
    report = take(
        path, lake, raw_symbol="WHATEVER", normalized_symbol="WHAT-EUR", coin="W", category="perpetual"
    )
    assert report.files[0].already_ingested
    assert (report.markets[0].coin, report.markets[0].category) == ("W", "PERPETUAL")
    # Registered by now, so nothing need be guessed.
    assert take(write(HEAD, row(2)), lake, raw_symbol="WHATEVER").markets[0].coin == "W"


@pytest.mark.slow
def test_the_report_can_be_read(write, lake):
    path = write(HEAD, row(1), row(2) + ",x")
    text = str(take(path, lake, skip_bad=True))
    assert text.splitlines() == [
        f"{path}: 1 trade; times in s; 1 bad line skipped",
        "  line 3: more columns than the header",
        (
            "COINBASE BTC-USD: BTC-USD, coin BTC, SPOT, block size 0.005 (names guessed from the raw symbol); "
            "1 trade in the lake"
        ),
    ]
    take(write(HEAD, row(3), name="more"), lake)
    assert str(take(path, lake, skip_bad=True)).splitlines() == [
        f"{path}: already in the lake",
        "COINBASE BTC-USD: BTC-USD, coin BTC, SPOT, block size 0.005; 2 trades in the lake",
    ]


@pytest.mark.slow
def test_a_bad_file_does_not_lose_the_others(write, lake):
    good, bad = write(HEAD, row(1), name="good"), write(HEAD, row(2, price="x"), name="bad")
    contradicting = write(HEAD, row(1, price=99), row(5), name="other")
    more = write(HEAD, row(1), row(3), name="more")
    missing = good.with_name("missing")
    with pytest.raises(IngestError, match="3 of 5 files did not go") as caught:
        take([good, bad, contradicting, missing, more], lake)
    error = caught.value
    assert [path for path, _ in error.failures] == [str(bad), str(contradicting), str(missing)]
    assert [type(reason) for _, reason in error.failures] == [IngestError] * 3
    assert (error.failures[0][1].line, error.failures[0][1].bad_lines) == (2, 1)
    for said in ("bad:2: the price", "other: trades: the same row", "missing: No such file"):
        assert said in str(error)
    assert [(file.path, file.trades_read, file.trades_new) for file in error.report.files] == [
        (str(good), 1, 1),
        (str(more), 2, 1),
    ]
    # Nothing of a file that was left out: not its good lines either.
    assert stored(lake, "id") == [("1",), ("3",)]
    assert take([good, more], lake).trades_new == 0


def test_all_files_may_be_bad(write, lake):
    version = lake.version()
    bad = [write(HEAD, row(2, price="x"), name=name) for name in ("a", "b")]
    with pytest.raises(IngestError, match="2 of 2 files did not go into the lake:") as caught:
        take(bad, lake)
    assert caught.value.report.files == ()
    assert lake.version() == version


@pytest.mark.parametrize("first", ["good", "other"])
def test_an_argument_that_fits_some_files_only_does_not_lose_them(write, lake, first):
    files = [write(HEAD, row(1), name="good"), write(HEAD.replace("price", "px"), row(2), name="other")]
    files.sort(key=lambda path: path.name != first)
    with pytest.raises(IngestError, match="other: columns: left out") as caught:
        take(files, lake)
    assert isinstance(caught.value.failures[0][1], QueryError)
    assert caught.value.report.trades_new == 1


def test_an_argument_that_fits_no_file_is_wrong(write, lake):
    files = [write(HEAD.replace("price", "px"), row(number), name=f"f{number}") for number in range(3)]
    version = lake.version()
    with pytest.raises(QueryError, match="columns: left out"):
        take(files, lake)
    assert lake.version() == version


def test_one_name_for_files_of_two_markets_is_refused(write, lake):
    columns = {"raw_symbol": "symbol"}
    files = [write("symbol," + HEAD, f"{symbol}," + row(1), name=symbol) for symbol in ("BTC-USD", "ETH-USD")]
    with pytest.raises(IngestError, match="ETH-USD: coin: got 'BTC', expected files of one market"):
        take(files, lake, raw_symbol=None, columns=columns, coin="BTC")
    assert lake.markets()["raw_symbol"].to_list() == ["BTC-USD"]


@pytest.mark.slow
def test_a_lake_that_cannot_be_written_ends_it(write, lake, monkeypatch, tmp_path):
    """What went in stays, and no reader leaves its rows behind on the disk."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    monkeypatch.setattr("tidytape.lake.ingest._run.IN_MEMORY", 0)
    append, calls = LakeWriter.append, []

    def once(self, *args, **options):
        calls.append(args)
        if len(calls) > 1:
            raise LakeError("no space left on device")
        return append(self, *args, **options)

    monkeypatch.setattr(LakeWriter, "append", once)
    files = [write(HEAD, row(number), name=f"f{number}") for number in range(1, 12)]
    with pytest.raises(LakeError, match="no space"):
        take(files, lake, workers=4)
    assert stored(lake, "id") == [("1",)]
    assert list((tmp_path / "temp").iterdir()) == []
    monkeypatch.setattr(LakeWriter, "append", append)
    assert take(files, lake, workers=4).trades_new == 10
    assert list((tmp_path / "temp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_the_number_of_workers_changes_nothing(write, tmp_path, order):
    lines = [row(n, timestamp=DAY + n // 4, id=f"t{n}") for n in range(40)]
    pieces = [write(HEAD, *lines[at : at + 7], name=f"p{at}") for at in range(0, 40, 6)][::order]
    frames = []
    for workers in (1, 2, 5):
        lake = empty_lake(tmp_path / f"lake{workers}")
        report = take(pieces, lake, workers=workers)
        assert [file.path for file in report.files] == [str(path) for path in pieces]
        frames.append(
            (lake.scan("trades").collect().sort("timestamp", "sequence"), lake.markets(), str(report))
        )
    for trades, markets, text in frames[1:]:
        assert trades.equals(frames[0][0])
        assert markets.equals(frames[0][1])
        assert text == frames[0][2]
    with pytest.raises(QueryError, match="workers: got 0"):
        take(pieces, lake, workers=0)


@pytest.mark.slow
def test_progress_is_shown_when_asked_for(write, lake, capsys):
    take(write(HEAD, row(1), name="a"), lake, progress=True)
    assert "100%" in capsys.readouterr().err
    take(write(HEAD, row(2), name="b"), lake)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_recorded_coinbase_trades(recorded, lake):
    from tidytape.aggregate import volume_profile

    columns = {"price": "price", "amount": "amount", "side": "side", "timestamp": "timestamp"}
    path = recorded / "coinbase_btc-usd_trades_20230905.csv.gz"
    report = take(path, lake, columns=columns)
    assert (report.trades_read, report.trades_new, report.files[0].time_unit) == (5882, 5882, "iso")
    assert take(path, lake, columns=columns).trades_new == 0
    trades = lake.scan("trades").collect()
    assert trades.height == 5882
    profile = volume_profile(trades, interval="1h", block_size=report.markets[0].block_size)
    assert profile["volume"].sum() == pytest.approx(trades["amount"].sum(), rel=1e-9)
    assert profile["timestamp"].n_unique() == 1
