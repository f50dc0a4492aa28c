"""Guessing coin and quote."""

from __future__ import annotations

from tables import each_row
from tidytape.lake._symbols import guessed


@each_row(
    ("raw_symbol", "normalized"),
    [
        ("BTCUSDT", "BTC-USDT"),
        ("btcusdt", "BTC-USDT"),
        ("ETHUSDC", "ETH-USDC"),
        ("ETHBTC", "ETH-BTC"),
        ("1000PEPEUSDT", "1000PEPE-USDT"),
        ("BTC-USD", "BTC-USD"),
        ("BTC/USDT", "BTC-USDT"),
        ("BTC/USDT:USDT", "BTC-USDT"),
        ("BTC_USDT_SWAP", "BTC-USDT"),
        ("XBTUSD", "BTC-USD"),
        ("PI_XBTUSD", "BTC-USD"),
        ("BTCUSD_PERP", "BTC-USD"),
        ("BTCUSDT_240628", "BTC-USDT"),
        ("BTC-PERPETUAL", "BTC-USD"),
        ("ETH-27DEC24", "ETH-USD"),
        ("BTC-27DEC24-60000-C", "BTC-USD"),
        # Ends in BUSD or TUSD, and yet not always quoted in it.
        ("BTCBUSD", "BTC-BUSD"),
        ("SHIBUSD", "SHIB-USD"),
        ("BNBUSD", "BNB-USD"),
        ("DOTUSD", "DOT-USD"),
        ("SOLFDUSD", "SOL-FDUSD"),
        ("WIFFDUSD", "WIF-FDUSD"),
        ("XBTUSDTM", "BTC-USDT"),
        ("SOLUSDCM", "SOL-USDC"),
        ("XBTUSDM", "BTC-USD"),
    ],
)
def test_guess(raw_symbol, normalized):
    assert guessed(raw_symbol).normalized == normalized


@each_row("raw_symbol", ["", "BTC", "AAPL", "USDT", "FOOBUSD", "-", "PERP", "币安USDT"])
def test_no_guess_rather_than_a_wrong_one(raw_symbol):
    assert guessed(raw_symbol) is None
