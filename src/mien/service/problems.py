"""Every error becomes a problem document (RFC 9457)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mien.errors import EmptyGalleryError, GalleryBusyError, GalleryError, MienError, WeightsError
from mien.service.service_log import log_error

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
MOST_ERRORS = 20


class Problem(Exception):  # noqa: N818 the word of the standard
    """Why a request was refused or failed."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.more = dict(more or {})
        self.headers = dict(headers or {})

    @property
    def document(self) -> dict[str, Any]:
        """The members of the problem document; those of this kind only come last."""
        title = self.kind.replace("-", " ").capitalize()
        own = {"type": f"urn:mien:{self.kind}", "title": title, "status": self.status, "detail": self.detail}
        return own | self.more

    @property
    def response(self) -> Response:
        content = json.dumps(self.document)
        return Response(content, self.status, media_type=MEDIA_TYPE, headers=self.headers)


def busy(detail: str) -> Problem:
    return Problem(503, "busy", detail, headers={"Retry-After": str(RETRY_SECONDS)})


def problem_of(error: Exception) -> Problem:  # noqa: PLR0911 a table
    match error:
        case Problem():
            return error
        case GalleryBusyError():
            return busy("the gallery is being changed: try again")
        case EmptyGalleryError():
            return Problem(409, "empty-gallery", "the gallery holds nobody to compare with")
        case WeightsError():
            return Problem(409, "no-encoder", "the weights of the encoder are not on this machine")
        case GalleryError():  # its message names folders, which callers must not see
            log_error(error, "run 'mien gallery verify'")
            return Problem(500, "gallery-unreadable", "the gallery cannot be read; the service's log says why")
        case MienError():
            kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__.removesuffix("Error")).lower()
            return Problem(422, kind, str(error))
        case ValidationError():
            return _invalid(error)
        case HTTPException():
            kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
            return Problem(error.status_code, kind, error.detail, headers=error.headers)
        case _:
            log_error(error, "report the places in the code")
            return Problem(500, "internal-error", "something went wrong in the service; its log says where")


def _invalid(error: ValidationError) -> Problem:
    """Names the wrong fields; if there are very many, only their number."""
    detail = "the request has missing or wrong fields"
    if error.error_count() > MOST_ERRORS:
        return Problem(422, "invalid-request", f"{detail}: {error.error_count():,} of them")
    lines = [{"field": ".".join(map(str, line["loc"]))[:100], "message": line["msg"][:200]} for line in error.errors()]
    return Problem(422, "invalid-request", detail, more={"errors": lines})


async def answer_problem(_request: Request, error: Exception) -> Response:
    """Handles errors that Starlette would answer itself: no such route, or not with this method."""
    return problem_of(error).response
