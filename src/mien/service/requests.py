"""Reads forms and bodies of requests, in memory only; writes answers as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mien.encoding.photo_encoder import Photo
from mien.encoding.subject import Choice
from mien.errors import shown, shown_ids
from mien.service.problems import Problem
from mien.service.request_queue import RequestQueue
from mien.service.settings import Settings
from mien.service.tokens import Asker

MOST_FIELDS = 100
LONGEST_NAME = 80
Body = TypeVar("Body")


class Form(NamedTuple):
    """A form with photos."""

    fields: dict[str, str]  # the last value of each field
    photos: dict[str, list[Photo]]  # by field


class InMemoryParser(MultiPartParser):
    """Keeps all files in memory: its parent would write large ones, photos of patients, to the disk."""

    spool_max_size = 1 << 62
    ended = False

    def on_end(self) -> None:
        """Called at the last boundary."""
        self.ended = True

    async def parse(self) -> FormData:
        """Does what its parent does, but closes the parts after every error."""
        try:
            form = await super().parse()
            if not self.ended:
                raise MultiPartException("it is cut off")  # noqa: TRY301 so that the parts are closed
            return form  # noqa: TRY300
        except BaseException:
            for part in self._files_to_close_on_error:
                part.close()
            raise


async def read_form(request: Request, settings: Settings, names: Sequence[str] = ("photos",)) -> Form:
    """Reads the fields and the photos of a multipart form. Fields `face` choose a face on each photo."""
    _require(request, "multipart/form-data")
    if re.search(r"charset(?!\s*=\s*\"?utf-8)", request.headers["content-type"], re.IGNORECASE):
        raise Problem(415, "wrong-media-type", "send the form in UTF-8")
    parser = InMemoryParser(
        request.headers, request.stream(), max_files=10 * settings.most_photos, max_fields=MOST_FIELDS
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        detail = getattr(error, "message", "no boundary between the parts")
        raise Problem(400, "invalid-form", f"the form cannot be read: {detail}") from error
    except ClientDisconnect as error:
        raise _disconnected() from error
    try:
        return await _contents(form, settings, names)
    finally:
        await form.close()


async def _contents(form: FormData, settings: Settings, names: Sequence[str]) -> Form:
    files = [(key, part) for key, part in form.multi_items() if isinstance(part, UploadFile)]
    if others := {key for key, _ in files} - set(names):
        known = " or ".join(map(repr, names))
        raise Problem(422, "invalid-request", f"photos are sent as {known}, not as {shown_ids(sorted(others))}")
    # browsers send an empty file where none is chosen
    sent = [(key, part) for key, part in files if part.filename or part.size]
    for name in names:
        if (count := sum(key == name for key, _ in sent)) > settings.most_photos:
            raise Problem(413, "too-many-photos", f"{count} photos: at most {settings.most_photos} of one patient")
    faces = [str(choice) for choice in form.getlist("face")]
    faces += [""] * (len(sent) - len(faces))
    photos: dict[str, list[Photo]] = {name: [] for name in names}
    for (key, part), face in zip(sent, faces, strict=False):
        name = unique_name(part.filename or "", [photo.image_id for photo in photos[key]])
        photos[key].append(Photo(name, await part.read(), face_choice(face)))
    fields = {key: value for key, value in form.multi_items() if isinstance(value, str) and key != "face"}
    return Form(fields, photos)


def unique_name(name: str, taken: Collection[str]) -> str:
    r"""Makes the file name of a client safe to show, and unique. It is never used as a path.

    >>> unique_name("C:\\me\\a.jpg", []), unique_name("../a.jpg", ["a.jpg"]), unique_name("", [])
    ('a.jpg', 'a.jpg (2)', 'photo')
    """
    last = re.split(r"[/\\]", name)[-1]
    safe = shown(last, longest=LONGEST_NAME)[1:-1] if not last.isprintable() else last[:LONGEST_NAME]
    base = safe.strip() or "photo"
    candidates = [base, *(f"{base} ({number})" for number in range(2, len(taken) + 2))]
    return next(candidate for candidate in candidates if candidate not in taken)


async def read_json(request: Request) -> bytes:
    """Reads the body of a JSON request; it is parsed later, on a thread."""
    _require(request, "application/json")
    try:
        return await request.body()
    except ClientDisconnect as error:
        raise _disconnected() from error


def face_choice(text: str) -> Choice:
    """The face that a field chooses: a number from the left, `main`, or nothing."""
    if text == "main":
        return "main"
    if not re.fullmatch("[1-9][0-9]{0,3}|", text, re.ASCII):
        raise Problem(422, "invalid-face", "face is a number from 1 on, 'main', or empty")
    return int(text) if text else None


async def answer_request(
    request: Request,
    queue: RequestQueue,
    read: Callable[[Request], Awaitable[Body]],
    job: Callable[[Body], dict[str, Any]],
) -> Response:
    """Reads a body, runs the job with it on a thread, and answers with the document that the job returns."""
    with queue.place():
        received = await queue.receive(request, read)

        def make() -> tuple[Response, dict[str, Any]]:
            document = job(received)
            return json_response(document), document

        response, document = await queue.run(make)
        note_for_audit(request, document)
        return response


def asker_of(request: Request) -> Asker:
    """Who asks, as the access checks found."""
    asker: Asker = request.scope["asker"]
    return asker


def json_response(document: Any) -> Response:
    return Response(json.dumps(document), media_type="application/json")


def note_for_audit(request: Request, document: Mapping[str, Any]) -> None:
    """Adds the gallery's generation and the number of photos to the request's line in the audit log."""
    if "gallery" in document:
        photos = sum(len(query["image_ids"]) for query in document["queries"])
        request.scope["audit"] = {"generation": document["gallery"]["generation"], "photos": photos}


def _require(request: Request, media_type: str) -> None:
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != media_type:
        raise Problem(415, "wrong-media-type", f"send {media_type}")


def _disconnected() -> Problem:
    return Problem(400, "gone", "the request ended before it was whole")
