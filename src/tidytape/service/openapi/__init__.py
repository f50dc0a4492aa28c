"""The service's own description: an OpenAPI document, and a page to read made of it.

Nothing is said here that is said elsewhere: parameters come from the query models, payloads and error codes from the
catalogue, what is nullable from the schemas.
"""

from __future__ import annotations

from tidytape.service.openapi.document import document
from tidytape.service.openapi.page import page

__all__ = ["document", "page"]
