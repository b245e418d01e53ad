"""The page in a real browser: Debian's chromium, driven as a person would."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
from contextlib import contextmanager
from importlib import resources
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from PIL import Image

from mien import Cohort, Disorder, Encoder, Encodings, Gallery, Label, Query, calibrate
from mien.core.study import ImageFacts
from mien.encoding.alignment import png_of
from mien.encoding.photo_encoder import Photo, RefusedPhoto
from mien.service import demo
from mien.service.patient_ranker import DemoPatient
from mien.simulation.study import simulated_gmdb
from mien.storage.learned import store_calibration

from services import TOKEN, serving
from studies import small_gmdb

selenium = pytest.importorskip("selenium", reason="the browser is driven by selenium: pip install 'mien[dev]'")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

PERSONS = 16
IN_GALLERY = 2
WIDTHS = {"phone": (390, 844), "desktop": (1400, 1000)}
BOTH_WIDTHS = ["phone", pytest.param("desktop", marks=pytest.mark.long)]  # other tests are on a desktop
SECONDS = 30
AXE = resources.files("axe_core_python") / "axe.min.js"


@pytest.fixture(scope="module")
def driver_service():
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no browser to look with: install Debian's chromium and chromium-driver, as .ci/run does")
    return program, webdriver.ChromeService(driver)


@contextmanager
def browser(driver_service, width, height, downloads):
    program, service = driver_service
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(flag)
    options.add_argument("--hide-scrollbars")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, service)
    try:
        # not the window: headless chromium makes none narrower than 500 pixels
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def somebody(faces, photo_encoder, tmp_path_factory):
    """A gallery of persons with two photos each, and three other photos of one of them on which nobody else is."""
    folders = sorted(path for path in faces.iterdir() if path.is_dir())[:PERSONS]
    persons = [(folder.name, sorted(folder.iterdir())) for folder in folders]
    photos = [Photo(f"{name}/{path.name}", path, "main") for name, paths in persons for path in paths[:IN_GALLERY]]
    encodings = photo_encoder.encodings_of(photo_encoder.encode(photos))
    labels = [Label(photo.image_id, photo.image_id.split("/")[0], photo.image_id.split("/")[0]) for photo in photos]
    names = {name: Disorder(name, f"Syndrome of {name.replace('_', ' ')}", "OMIM:100000") for name, _ in persons}
    directory = tmp_path_factory.mktemp("faces") / "gallery"
    Gallery.build(directory, Cohort.join(encodings, labels, names))
    for name, paths in persons:
        others = paths[IN_GALLERY:]
        alone = photo_encoder.encode([Photo(path.name, path) for path in others])
        if len(others) == 3 and not any(isinstance(result, RefusedPhoto) for result in alone):
            return directory, name, others
    raise AssertionError("nobody has three photos alone")


@pytest.fixture
def no_face(tmp_path):
    path = tmp_path / "wall.png"
    Image.linear_gradient("L").resize((300, 300)).save(path)
    return path


class Page:
    """What a person does with the page."""

    def __init__(self, driver, address):
        self.driver = driver
        driver.get(address)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        return WebDriverWait(self.driver, SECONDS, poll_frequency=0.05).until(lambda _: condition())

    def upload(self, *paths):
        self.find("#photos-input").send_keys("\n".join(map(str, paths)))
        self.wait(lambda: len(self.all(".thumb")) >= len(paths))

    def rank(self):
        self.find("#submit").click()
        self.answered()

    def answered(self):
        self.wait(
            lambda: self.all(".photo-card, #list > li") and self.look("#result", "getAttribute('aria-busy')") == "false"
        )

    def order(self):
        """Disorder ids in the order of the list; taken at once, because the list may be about to change."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll('#list > li')].map(item => item.dataset.disorder)"
        )

    def text(self, selector):
        return self.look(selector, "innerText")

    def look(self, selector, what):
        """At once, by one script: what is found by selenium may be replaced before it is looked at."""
        return self.driver.execute_script(f"return document.querySelector(arguments[0])?.{what}", selector)

    def set_weight(self, weight):
        self.driver.execute_script(
            "const slider = document.querySelector('#lambda'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input', {bubbles: true}))",
            weight,
        )
        self.wait(lambda: self.text("#lambda-value") == f"{weight:.2f}")

    def is_wider_than_its_window(self):
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )

    def top_of(self, selector):
        """How far down the window something begins."""
        return self.look(selector, "getBoundingClientRect().top")

    def barriers(self):
        """What axe-core finds that would keep people out."""
        self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("const done = arguments[0]; axe.run(document).then(done)")
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]

    def complaints(self):
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"]


def answer_of(address, paths):
    files = [("photos", (path.name, path.read_bytes())) for path in paths]
    return httpx.post(f"{address}/v1/rank", files=files, data={"top": "all"}, trust_env=False, timeout=60).json()


def expected_order(answer, weight, entry=lambda line: line):
    lines = answer["queries"][0]["disorders"]
    return [
        disorder_id
        for _, disorder_id in sorted(
            (
                weight * entry(line)["centroid_distance"] + (1 - weight) * entry(line)["nearest_distance"],
                line["disorder_id"],
            )
            for line in lines
        )
    ]


@pytest.mark.parametrize("width", BOTH_WIDTHS)
def test_three_photos_of_somebody(driver_service, somebody, tmp_path, width):
    directory, name, photos = somebody
    with serving(directory) as address, browser(driver_service, *WIDTHS[width], tmp_path) as driver:
        page = Page(driver, address)
        assert not page.is_wider_than_its_window()
        page.upload(*photos)
        page.rank()
        assert page.order()[0] == name
        assert len(page.all(".photo-card img.crop")) == 3
        assert page.all(".faces-beside") == []  # this gallery keeps no faces
        assert "never gives a diagnosis" in page.text(".caveat")
        assert "has never seen a syndrome" in page.text(".caveat.unfit")
        assert page.text("#result-heading") == f"Most like Syndrome of {name.replace('_', ' ')}."
        assert "How sure that is, is not known" in page.text(".sure")
        assert page.top_of("#result-heading") >= 0
        assert page.top_of("#list > li:first-child .measure") < WIDTHS[width][1]
        assert driver.switch_to.active_element.get_attribute("id") == "result-heading"
        assert not page.is_wider_than_its_window()
        answer = answer_of(address, photos)
        assert page.order() == expected_order(answer, 0.75)[:10]
        assert page.barriers() == []
        page.find("#more").click()
        page.wait(lambda: len(page.order()) == PERSONS)

        for weight in (0.0, 1.0, 0.3):
            page.set_weight(weight)
            page.wait(lambda weight=weight: page.order() == expected_order(answer, weight))
        page.find("#lambda-reset").click()
        page.wait(lambda: page.order() == expected_order(answer, 0.75))

        first = page.find("#list > li:first-child")
        first.find_element(By.TAG_NAME, "summary").click()
        says = first.find_element(By.CSS_SELECTOR, "[data-field=alone-1]").text
        line = answer["queries"][0]["disorders"][0]
        assert says.split()[0] == str(line["alone"][1]["rank"])
        assert line["nearest_cases"][0]["patient_id"] in first.find_element(By.CSS_SELECTOR, ".cases").text
        assert not page.is_wider_than_its_window()

        without = expected_order(answer, 0.75, lambda line: line["without"][0])
        page.find("button[data-view=without-0]").click()
        page.wait(lambda: page.order() == without)
        assert "Without photo 1" in page.text("#state")
        page.find("button[data-view=without-0]").click()
        page.wait(lambda: page.order() == expected_order(answer, 0.75))

        page.find("#search").send_keys(name.replace("_", " "))
        page.wait(lambda: page.order() == [name])
        leave = "const leave = new Event('beforeunload', {cancelable: true}); return window.dispatchEvent(leave)"
        assert driver.execute_script(leave) is False  # the photos would be lost: the browser asks first
        assert page.complaints() == []


@pytest.mark.long
def test_each_format_is_downloaded(driver_service, somebody, tmp_path):
    directory, name, photos = somebody
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    with serving(directory) as address, browser(driver_service, *WIDTHS["desktop"], downloads) as driver:
        page = Page(driver, address)
        page.upload(*photos)
        page.rank()
        page.set_weight(0.5)
        for kind in ("json", "tsv", "html"):
            page.find(f"button[data-download={kind}]").click()
            page.wait(lambda kind=kind: (downloads / f"mien-ranking.{kind}").exists())
        answer = json.loads((downloads / "mien-ranking.json").read_text())
        assert answer["method"]["lambda"] == 0.5
        lines = answer["queries"][0]["disorders"]
        assert lines[0]["disorder_id"] == name
        assert len(lines) == PERSONS
        rows = list(csv.DictReader(io.StringIO((downloads / "mien-ranking.tsv").read_text()), delimiter="\t"))
        assert [row["disorder_id"] for row in rows] == [line["disorder_id"] for line in lines]
        assert json.loads(rows[0]["ranks_alone"]) == [photo["rank"] for photo in lines[0]["alone"]]
        report = (downloads / "mien-ranking.html").read_text()
        assert "data:image/jpeg" not in report  # faces only if that is wanted
        assert "<script" not in report
        page.find("#record-case").send_keys("A-17 <b>")
        page.find("#faces-in-file").click()
        (downloads / "mien-ranking.html").unlink()
        page.find("button[data-download=html]").click()
        page.wait((downloads / "mien-ranking.html").exists)
        report = (downloads / "mien-ranking.html").read_text()
        assert "data:image/jpeg" in report
        assert "<dd>A-17 &lt;b&gt;</dd>" in report  # it was put in here, and never sent
        assert page.complaints() == []

        opened = Page(driver, f"file://{downloads}/mien-ranking.html")
        assert opened.order()[0] == name
        assert "never gives a diagnosis" in opened.find("body").text
        assert opened.complaints() == []


@pytest.mark.long
def test_a_picture_without_a_face_says_why(driver_service, somebody, no_face, tmp_path):
    directory, name, photos = somebody
    with serving(directory) as address, browser(driver_service, *WIDTHS["phone"], tmp_path) as driver:
        page = Page(driver, address)
        page.upload(no_face)
        page.rank()
        assert "no face was found" in page.text(".refusal")
        assert page.order() == []
        assert page.barriers() == []
        page.upload(photos[0])
        page.wait(lambda: len(page.all(".thumb")) == 2)
        page.rank()
        page.wait(page.order)
        assert page.order()[0] == name
        assert "no face was found" in page.text(".refusal")
        assert [card.get_attribute("class") for card in page.all(".photo-card")] == ["photo-card refused", "photo-card"]
        page.find(".thumb .remove").click()
        page.wait(lambda: len(page.all(".thumb")) == 1)
        page.rank()
        page.wait(lambda: not page.all(".refusal"))


@pytest.mark.long
def test_a_photo_of_several_asks_which_face_is_meant(driver_service, somebody, tmp_path):
    directory, _, photos = somebody
    images = [Image.open(path).convert("RGB").resize((400, 400)) for path in photos[:2]]
    both = Image.new("RGB", (800, 400))
    for place, image in enumerate(images):
        both.paste(image, (400 * place, 0))
    both.save(tmp_path / "both.jpg")
    with serving(directory) as address, browser(driver_service, *WIDTHS["desktop"], tmp_path) as driver:
        page = Page(driver, address)
        page.upload(tmp_path / "both.jpg")
        page.rank()
        assert len(page.all(".faces img")) == 2
        assert page.barriers() == []
        page.find(".faces .face:nth-of-type(2) img").click()
        page.wait(page.order)
        assert "face 2" in page.text(".thumb-name")


@pytest.mark.parametrize("width", BOTH_WIDTHS)
def test_the_keyboard_is_enough(driver_service, somebody, tmp_path, width):
    """From the first key to a saved file. Choosing the files themselves is the system's dialogue, not the page's."""
    directory, name, photos = somebody
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    with serving(directory) as address, browser(driver_service, *WIDTHS[width], downloads) as driver:
        page = Page(driver, address)

        def press(*keys):
            ActionChains(driver).send_keys(*keys).perform()

        def walk_to(selector, most=80):
            for _ in range(most):
                if driver.execute_script("return document.activeElement.matches(arguments[0])", selector):
                    return
                press(Keys.TAB)
            raise AssertionError(f"{selector} cannot be reached with the tab key")

        walk_to("a.skip")
        walk_to("#photos-input")
        page.upload(*photos)
        walk_to(".thumb .remove")
        press(Keys.ENTER)
        page.wait(lambda: len(page.all(".thumb")) == 2)
        walk_to("#submit")
        press(Keys.ENTER)
        page.answered()
        answer = answer_of(address, photos[1:])
        page.wait(lambda: page.order() == expected_order(answer, 0.75)[:10])
        walk_to("#list summary")
        press(Keys.ENTER)
        page.wait(lambda: page.find("#list details").get_attribute("open") is not None)
        walk_to("#lambda")
        press(Keys.HOME)
        page.wait(lambda: page.order() == expected_order(answer, 0.0)[:10])
        press(Keys.ARROW_RIGHT)
        page.wait(lambda: page.text("#lambda-value") == "0.05")
        walk_to("#view")
        press(Keys.ARROW_DOWN)
        page.wait(lambda: "Only photo 1" in page.text("#state"))
        walk_to("#search")
        press(name.replace("_", " "))
        page.wait(lambda: page.order() == [name])
        walk_to("#record-case")
        press("A-17")
        walk_to("button[data-download=tsv]")
        press(Keys.ENTER)
        page.wait((downloads / "mien-ranking.tsv").exists)
        assert page.complaints() == []


@pytest.mark.parametrize(
    ("width", "simulated", "disorders"),
    [("phone", small_gmdb, 89), pytest.param("desktop", simulated_gmdb, 710, marks=pytest.mark.long)],
    ids=["phone", "desktop, the whole"],
)
def test_the_demo_needs_no_photos(driver_service, tmp_path, monkeypatch, width, simulated, disorders):
    monkeypatch.setattr(demo, "simulated_gmdb", simulated)
    patients = demo.build_demo(tmp_path / "demo")
    with (
        serving(tmp_path / "demo", patients=patients) as address,
        browser(driver_service, *WIDTHS[width], tmp_path) as driver,
    ):
        page = Page(driver, address)
        assert "nobody here exists" in page.text(".banner")
        assert page.barriers() == []
        page.rank()
        page.wait(page.order)
        assert len(page.order()) == 10
        assert "True disorder of this simulated patient" in page.text("#truth")
        page.find("#more").click()
        page.wait(lambda: len(page.order()) == 30)
        assert not page.is_wider_than_its_window()
        driver.get(f"{address}/gallery")
        assert len(page.all("#disorders tbody tr")) == disorders
        assert not page.is_wider_than_its_window()
        assert page.complaints() == []


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A gallery of patients who never existed, and what was learned of it; somebody it knows, and somebody else."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((8, 1, 64))
    disorder_of = np.repeat(np.arange(8), 12)
    faces = centres[disorder_of] + 0.9 * rng.standard_normal((96, 1, 64))
    ids = [f"p{number}" for number in range(96)]
    labels = [Label(f"{who}.jpg", who, f"d{disorder}") for who, disorder in zip(ids, disorder_of, strict=True)]
    encodings = Encodings.of([label.image_id for label in labels], faces, Encoder(1, 64, "simulated"))
    directory = tmp_path_factory.mktemp("calibrated") / "gallery"
    names = {"d3": Disorder("d3", "Kabuki syndrome", "OMIM:147920")}
    Gallery.build(directory, Cohort.join(encodings, labels, names))
    store_calibration(directory, calibrate(Gallery.open(directory), prior_of_none=0.5))

    def patient(face):
        image_ids = ["left.jpg", "right.jpg"]
        photos = face + 0.1 * rng.standard_normal((2, 1, 64))
        return DemoPatient(Query(Encodings.of(image_ids, photos, Encoder(1, 64, "simulated"))), names["d3"])

    known, unknown = centres[3] + 0.5 * rng.standard_normal((1, 64)), rng.standard_normal((1, 64))
    return directory, {"known": patient(known), "unknown": patient(unknown)}


@pytest.mark.parametrize("width", BOTH_WIDTHS)
def test_the_answer_comes_first_and_says_how_sure_it_is(driver_service, calibrated, tmp_path, width):
    directory, patients = calibrated
    facts = {f"p{number}.jpg": ImageFacts(number - 35, "male") for number in range(36, 40)}
    with (
        serving(directory, patients=patients, facts_of_image=facts) as address,
        browser(driver_service, *WIDTHS[width], tmp_path) as driver,
    ):
        page = Page(driver, address)
        page.rank()
        assert re.fullmatch(r"Most like Kabuki syndrome, with a probability of .+ %\.", page.text("#result-heading"))
        assert re.search(
            r"Of \d+ patients of this gallery who were left out|Only \d+ left-out patients", page.text(".sure")
        )
        assert page.top_of("#list > li:first-child .measure") < WIDTHS[width][1]
        assert page.text("#list > li:first-child .set-mark") == "in the 90 % list"
        assert page.text("#list > li:first-child [data-field=probability]").endswith("%")
        assert [
            page.text("#list > li:first-child [data-field=ids]"),
            page.text("#list > li:nth-child(2) [data-field=ids]"),
        ] == ["d3 · OMIM:147920", ""]
        page.find("#list summary").click()
        assert page.all("[data-field=alone-1]")
        told = page.text("[data-field=sex-and-age] span")
        assert told.startswith("4 male, 8 not known; 1 to 4 years old on the photos")
        assert page.look("#list > li:nth-child(2) [data-field=sex-and-age]", "hidden")
        assert page.all("[data-field=without-1]") == []  # of two photos it says the same
        assert page.barriers() == []
        page.set_weight(0.2)
        assert "not 0.75 as in the sentence above" in page.text("#state")
        assert page.look("#list [data-field=probability]", "hidden")  # it was learned for another weight
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        printed = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
        assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 1

        page.rank()
        page.wait(lambda: "How sure that is, is not known" in page.text(".sure"))
        page.find("#lambda-reset").click()
        page.find("#patient option[value=unknown]").click()
        page.rank()
        page.wait(lambda: page.text("#result-heading").startswith("Possibly none of these: with "))


@pytest.mark.long
@pytest.mark.parametrize("width", BOTH_WIDTHS)
def test_two_patients_side_by_side(driver_service, calibrated, tmp_path, width):
    directory, patients = calibrated
    both = {"one": patients["known"], "other": patients["known"], "unlike": patients["unknown"]}
    with serving(directory, patients=both) as address, browser(driver_service, *WIDTHS[width], tmp_path) as driver:
        page = Page(driver, f"{address}/two")
        page.find("#two .button").click()
        page.wait(lambda: page.text("#pair-heading") == "Both are most like Kabuki syndrome.")
        assert page.look("#together tbody tr", "dataset.disorder") == "d3"
        assert page.barriers() == []
        assert not page.is_wider_than_its_window()
        page.find("#second option[value=unlike]").click()
        page.find("#two .button").click()
        page.wait(lambda: page.text("#pair-heading").startswith("The first is most like Kabuki syndrome, the second"))
        assert page.complaints() == []


@pytest.fixture
def kept(somebody, photo_encoder, tmp_path):
    """The gallery of persons again: three disorders of several persons each, and their faces."""
    directory, name, photos = somebody
    cohort = Gallery.open(directory).index.roster
    rows = Gallery.open(directory).index.raw_embeddings(np.arange(len(cohort.image_ids)))
    encodings = Encodings.of(cohort.image_ids, rows, Gallery.open(directory).encoder)
    number = {patient: place for place, patient in enumerate(sorted(cohort.patient_ids, key=lambda each: each != name))}
    labels = [
        Label(image, patient, "few" if number[patient] > 13 else f"d{number[patient] % 2}")
        for image, patient, _ in cohort.labels()
    ]
    kept = tmp_path / "kept"
    Gallery.build(kept, Cohort.join(encodings, labels))
    crops = {}
    for label in labels:
        face = photo_encoder.find_face(Photo(label.image_id, photos[0].parents[1] / label.image_id, "main"))
        crops[label.image_id] = png_of(face.crop)
    Gallery.add_faces(kept, crops)
    return kept, name, photos


@pytest.mark.long
@pytest.mark.parametrize("width", BOTH_WIDTHS)
def test_faces_stand_beside_the_patient_where_the_gallery_keeps_them(driver_service, kept, tmp_path, width):
    directory, name, photos = kept

    def pictures(page):
        """Captions of the faces in the first row that could be drawn."""
        figures = "[...document.querySelectorAll('#list > li:first-child .faces-beside figure:not([hidden])')]"
        drawn = f"{figures}.every(figure => figure.firstElementChild.naturalWidth > 0)"
        page.wait(lambda: page.driver.execute_script(f"return {drawn}"))
        return page.driver.execute_script(f"return {figures}.map(figure => figure.innerText.trim())")

    with serving(directory) as address, browser(driver_service, *WIDTHS[width], tmp_path) as driver:
        page = Page(driver, address)
        page.upload(*photos)
        page.rank()
        page.find("#list > li:first-child summary").click()
        captions = pictures(page)
        assert captions[0] == "the patient"
        assert captions[1].startswith(f"patient {name}, 0.")
        assert captions[-1] == "mean of its patients"
        assert len(captions) == 5
        assert page.barriers() == []
        assert not page.is_wider_than_its_window()
        page.find("#list > li[data-disorder=few] summary").click()
        assert page.look("#list > li[data-disorder=few] [data-field=composite]", "hidden")  # two patients are too few
        assert page.complaints() == []

        Gallery.remove_patients(directory, [name])
        page.rank()
        page.wait(lambda: page.all("#list > li:first-child [data-field=face-0][hidden]"))
        page.find("#list > li:first-child summary").click()
        assert not any(name in caption for caption in pictures(page))
        picture = f"{address}/v1/faces/{quote(name)}%2Fphoto_0.jpg"
        assert httpx.get(picture, trust_env=False).status_code == 404
    with serving(directory, coarse=True) as address, browser(driver_service, *WIDTHS[width], tmp_path) as driver:
        page = Page(driver, address)
        page.upload(*photos)
        page.rank()
        assert page.all(".faces-beside") == []


@pytest.mark.long
def test_coarse_pages_show_bands(driver_service, somebody, tmp_path):
    directory, name, photos = somebody
    with (
        serving(directory, coarse=True) as address,
        browser(driver_service, *WIDTHS["desktop"], tmp_path) as driver,
    ):
        page = Page(driver, address)
        page.upload(*photos)
        page.rank()
        assert page.order()[0] == name
        assert page.all("#lambda") == []
        assert page.text("#list [data-field=band]") in {"very close", "close", "fair", "far"}
        assert page.text(".sure") == "This service does not say how sure that is."
        assert page.barriers() == []
        assert "istance" not in page.find("#answer-data").get_attribute("textContent").replace(
            "same_person_distance", ""
        )
        assert page.complaints() == []
        assert Page(driver, f"{address}/gallery").barriers() == []


def test_a_busy_service_is_said_to_be_so(driver_service, somebody, tmp_path):
    directory, _, photos = somebody
    with (
        serving(directory, most_waiting=0) as address,
        browser(driver_service, *WIDTHS["desktop"], tmp_path) as driver,
    ):
        page = Page(driver, address)
        page.upload(photos[0])
        page.find("#submit").click()
        assert "Busy" in page.wait(lambda: page.text("#problem:not([hidden])"))


def test_a_token_lets_a_browser_in(driver_service, somebody, tmp_path):
    directory, name, photos = somebody
    with (
        serving(directory, token=TOKEN) as address,
        browser(driver_service, *WIDTHS["desktop"], tmp_path) as driver,
    ):
        page = Page(driver, address.replace("://", f"://anna:{TOKEN}@"))
        driver.get(address)  # as after the browser's own dialogue: the name is not in the address
        page.upload(*photos)
        page.rank()
        assert page.order()[0] == name
