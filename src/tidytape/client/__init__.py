"""The client of the service: the same methods in plain code and in asyncio, one frame type per client."""

from __future__ import annotations

from tidytape.client.aio import AsyncClient
from tidytape.client.quota import Usage
from tidytape.client.sync import Client

__all__ = ["AsyncClient", "Client", "Usage"]
