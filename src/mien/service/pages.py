"""The web pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import resources
from typing import Any

import jinja2
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from mien.answers.ranking import answer_in_words, notice_for, percent
from mien.core.method import FULL, method_of
from mien.encoding.photo import MOST_BYTES
from mien.errors import InvalidMethodError
from mien.report.rankings import csv_text, ranking_rows
from mien.report.sex_and_age import sex_and_age_in_words
from mien.service.api import disorder_list
from mien.service.disorder_map import FEWEST, Place, place_of_patient
from mien.service.page_values import links_of, mark_faces, natural_order, photo_card, with_all_parts
from mien.service.patient_ranker import CANNOT_ENCODE, Answer, PatientRanker, RefusedPhotosProblem, UploadResult
from mien.service.problems import Problem, problem_of
from mien.service.requests import Form, asker_of, note_for_audit, read_form
from mien.service.tokens import Asker
from mien.service.two_patients import FORM_FIELDS, compare_patients
from mien.storage.gallery import Gallery
from mien.version import __version__

FIRST_SHOWN = 10  # disorders of a list, as long as nobody asks for more
DEMO_NOTE = "The numbers show how the page works; they say nothing about real people."
MEDIA_TYPES = {"json": "application/json", "tsv": "text/tab-separated-values", "html": "text/html"}


def page_routes(ranker: PatientRanker) -> APIRouter:
    """The routes of the pages, which are left out of the OpenAPI document."""
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    queue, pages = ranker.queue, Pages(ranker)

    @routes.get("/")
    async def start() -> Response:
        return await queue.run_short(lambda: pages.empty_form("page.html"))

    @routes.post("/")
    async def rank(request: Request) -> Response:
        return await answer_form(request, ["photos"], pages.answer, "page.html")

    @routes.get("/two")
    async def two() -> Response:
        return await queue.run_short(lambda: pages.empty_form("two.html"))

    @routes.post("/two")
    async def rank_two(request: Request) -> Response:
        return await answer_form(request, FORM_FIELDS, pages.answer_two, "two.html")

    async def answer_form(
        request: Request,
        names: Sequence[str],
        answer: Callable[[Asker, Form], tuple[Response, dict[str, Any]]],
        template: str,
    ) -> Response:
        form = Form({}, {})
        try:
            with queue.place():
                form = await queue.receive(request, partial(read_form, settings=ranker.settings, names=names))
                response, document = await queue.run(lambda: answer(asker_of(request), form))
                note_for_audit(request, document)
                return response
        except Exception as error:
            problem = problem_of(error)
            if form.fields.get("download"):
                return problem.response
            return await queue.run_short(lambda: pages.refusal(template, problem, form))

    @routes.get("/gallery")
    async def gallery() -> Response:
        return await queue.run_short(pages.gallery)

    return routes


class Pages:
    """Fills the templates."""

    def __init__(self, ranker: PatientRanker) -> None:
        self.ranker = ranker
        self.sex_and_age: dict[str, Mapping[str, str]] = {}
        self.templates = jinja2.Environment(
            loader=jinja2.PackageLoader("mien.service"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        patients = [
            {"patient_id": patient_id, "photos": len(patient.query.encodings.image_ids)}
            for patient_id, patient in ranker.demo_patients.items()
        ]
        self.templates.globals.update(
            percentage=percent,
            version=__version__,
            first_shown=FIRST_SHOWN,
            fewest_on_map=FEWEST,
            most_photos=ranker.settings.most_photos,
            most_megabytes=MOST_BYTES // 10**6,
            centroid_weight=FULL.parameters["lambda"],
            coarse=ranker.settings.coarse,
            can_encode=ranker.encoder is not None,
            cannot_encode=CANNOT_ENCODE,
            demo={"patients": patients, "note": DEMO_NOTE} if patients else None,
            chosen={},  # and what else not every page has
            answer=None,
            problem=None,
            photos=[],
        )

    def empty_form(self, template: str) -> Response:
        """A page to send photos from."""
        self.ranker.gallery.want_map()
        return HTMLResponse(self._render(template))

    def answer(self, asker: Asker, form: Form) -> tuple[Response, dict[str, Any]]:
        """Ranks one patient. Returns the page or the file with the answer, and the document behind it."""
        fields = form.fields
        download = fields.get("download", "")
        method = method_of(parameters={"lambda": _weight(fields.get("lambda", ""))})
        if self.ranker.demo_patients:
            answer = self.ranker.rank_demo(asker, fields.get("patient", ""), method)
        elif photos := form.photos["photos"]:
            try:
                answer = self.ranker.rank_photos(asker, photos, method, None, skip_refused=True)
            except RefusedPhotosProblem as problem:
                if download:
                    raise
                return self.refusal("page.html", problem, form, self._cards(problem.uploads)), problem.document
        else:
            raise Problem(422, "no-photos", "Choose at least one photo of the patient.")
        if download:
            with_faces = fields.get("faces_in_file") == "on"
            return self._file(answer, download, with_faces=with_faces), answer.document
        shown = self._answer_values(answer, with_faces=asker.may("faces") and not self.ranker.settings.coarse)
        coarse = self.ranker.settings.coarse
        place = None if coarse else place_of_patient(answer.ranking.disorders, self.ranker.gallery.map)
        shown["answer"]["map"] = self._map(answer.gallery, place)
        html = self._render("page.html", answer.document["gallery"], **shown, chosen=fields)
        return HTMLResponse(html), answer.document

    def refusal(self, template: str, problem: Problem, form: Form, cards: Sequence[dict[str, Any]] = ()) -> Response:
        """A page with what was wrong."""
        html = self._render(template, problem=problem.document, photos=cards, chosen=form.fields)
        return HTMLResponse(html, problem.status, problem.headers)

    def answer_two(self, asker: Asker, form: Form) -> tuple[Response, dict[str, Any]]:
        """Ranks two patients. Returns the page with what each and both are most like, and the document behind it."""
        answers = []
        for name in FORM_FIELDS:
            if self.ranker.demo_patients:
                answers.append(self.ranker.rank_demo(asker, form.fields.get(name, ""), FULL))
            elif photos := form.photos[name]:
                answers.append(self.ranker.rank_photos(asker, photos, FULL, None, skip_refused=True))
            else:
                raise Problem(422, "no-photos", "Choose at least one photo of each patient.")
        queries = [query for answer in answers for query in answer.document["queries"]]
        pair = compare_patients(*(query["disorders"] for query in queries))
        crops = [[card["crop"] for card in self._cards(answer.uploads) if card["crop"]] for answer in answers]
        html = self._render("two.html", pair=pair, crops=crops, chosen=form.fields)
        return HTMLResponse(html), {**answers[0].document, "queries": queries}

    def gallery(self) -> Response:
        """What the gallery holds."""
        gallery = self.ranker.gallery.newest()
        listed = disorder_list(gallery.roster)
        by_name = sorted(listed, key=lambda one: natural_order(one["disorder_name"] or one["disorder_id"]))
        return HTMLResponse(
            self._render("gallery.html", gallery.as_dict(), disorders=by_name, map=self._map(gallery, None))
        )

    def _answer_values(self, answer: Answer, *, pictures: bool = True, with_faces: bool = False) -> dict[str, Any]:
        """What templates show of an answer; `with_faces`: also faces of gallery patients, if any are kept."""
        truth = answer.truth and {"disorder_id": answer.truth.disorder_id, "disorder_name": answer.truth.name}
        cards = self._cards(answer.uploads, pictures=pictures)
        if not cards:  # a simulated patient has no photos
            image_ids = answer.document["queries"][0]["image_ids"]
            cards = [{"image_id": image_id, "encoded": True} for image_id in image_ids]
        [query] = answer.document["queries"]
        with_links = self.ranker.settings.links and not self.ranker.settings.coarse
        sex_and_age = self._sex_and_age(answer.gallery)
        lines = [
            {
                **with_all_parts(line),
                "links": links_of(line) if with_links else [],
                "sex_and_age": sex_and_age.get(line["disorder_id"], ""),
            }
            for line in query["disorders"]
        ]
        return {
            "answer": {**answer.document, "queries": [{**query, "disorders": lines}], "truth": truth},
            "photos": cards,
            "faces": with_faces and mark_faces(lines, answer.gallery.faces),
            "words": answer_in_words(answer.ranking, coarse=self.ranker.settings.coarse),
        }

    def _sex_and_age(self, gallery: Gallery) -> Mapping[str, str]:
        """Sex and age of each disorder's patients, where they are known and may be told."""
        settings = self.ranker.settings
        if settings.coarse or not settings.facts_of_image:
            return {}
        if gallery.fingerprint not in self.sex_and_age:  # of the newest generation only
            self.sex_and_age = {gallery.fingerprint: sex_and_age_in_words(gallery.roster, settings.facts_of_image)}
        return self.sex_and_age[gallery.fingerprint]

    def _cards(self, uploads: Sequence[UploadResult], *, pictures: bool = True) -> list[dict[str, Any]]:
        return self.ranker.queue.run_on_cores(partial(photo_card, pictures=pictures), uploads)

    def _map(self, gallery: Gallery, place: Place | None) -> dict[str, Any] | None:
        """The map of disorders, with the place of the patient if it is given."""
        self.ranker.gallery.want_map()
        points = self.ranker.gallery.points(gallery)
        if not points:
            return None
        shown = place and {"x": round(place[0], 1), "y": round(place[1], 1)}  # more digits would tell distances
        return {"points": points, "place": shown}

    def _file(self, answer: Answer, kind: str, *, with_faces: bool) -> Response:
        """The answer as a file to keep; its user asked for it."""
        if kind not in MEDIA_TYPES:
            raise Problem(422, "invalid-request", f"download is one of {', '.join(MEDIA_TYPES)}")
        document = answer.document
        if kind == "json":
            content = json.dumps(document, indent=1)
        elif kind == "tsv":
            content = csv_text(list(ranking_rows(document)), delimiter="\t")
        else:
            css = (resources.files("mien.service") / "static" / "page.css").read_text(encoding="utf-8")
            shown = self._answer_values(answer, pictures=with_faces)
            content = self._render("report.html", document["gallery"], **shown, css=css)
        headers = {"Content-Disposition": f'attachment; filename="mien-ranking.{kind}"'}
        return Response(content, media_type=MEDIA_TYPES[kind], headers=headers)

    def _render(self, template: str, gallery: dict[str, Any] | None = None, **values: Any) -> str:
        newest = self.ranker.gallery.newest()
        return self.templates.get_template(template).render(
            notice=notice_for(newest.encoder),
            gallery=gallery or newest.as_dict(),
            made=datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
            map_drawn=self.ranker.gallery.map_drawn,
            **values,
        )


def _weight(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InvalidMethodError("lambda is a number from 0 to 1") from error
