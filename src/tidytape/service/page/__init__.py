"""The page that the service shows a person with a browser."""

from __future__ import annotations

from tidytape.service.page._page import SCRIPTS, document, page

__all__ = ["SCRIPTS", "document", "page"]
