// The form: photos are gathered here and posted again for every question, because the server keeps nothing.
import { startAnswer } from "./answer.js";
import { count, sentence } from "./words.js";

const form = document.querySelector("#query");
const input = document.querySelector("#photos-input"); // absent in a demo
const patient = document.querySelector("#patient"); // in a demo only
const hint = document.querySelector("#form-hint");
const submit = document.querySelector("#submit");
let photos = []; // {file, face, url}: face is "" or the number of the chosen one
let asked = []; // the photos that the answer on show is about
let askedPatient = patient?.value;
let chosenWeight = () => null;
let busy = false;

const result = () => document.querySelector("#result");
const announce = (text) => { document.querySelector("#status").textContent = text; };

function showProblem(box, { title, detail }) {
  box.querySelector("[data-problem=title]").textContent = title;
  box.querySelector("[data-problem=detail]").textContent = sentence(detail ?? "");
  box.hidden = false;
}

// ---- photos

function addPhotos(files) {
  const refused = [];
  for (const file of files) {
    if (photos.some(({ file: known }) => known.name === file.name && known.size === file.size && known.lastModified === file.lastModified)) continue;
    if (file.size > form.dataset.megabytes * 1e6) refused.push(`${file.name} is larger than ${form.dataset.megabytes} MB.`);
    else if (photos.length >= form.dataset.photos) refused.push(`${file.name} is one too many: ${form.dataset.photos} photos at most.`);
    else photos.push({ file, face: "", url: URL.createObjectURL(file) });
  }
  drawThumbs();
  if (files.length) announce(`${count(photos.length, "photo", "photos")} chosen`);
  if (refused.length) hint.textContent = refused.join(" ");
}

function removePhoto(photo) {
  const place = photos.indexOf(photo);
  photos.splice(place, 1);
  URL.revokeObjectURL(photo.url);
  drawThumbs();
  (document.querySelectorAll("#thumbs .remove")[Math.min(place, photos.length - 1)] ?? input).focus();
  announce(`${photo.file.name} removed, ${count(photos.length, "photo", "photos")} left`);
}

function thumbOf(photo) {
  const thumb = document.querySelector("#thumb-template").content.firstElementChild.cloneNode(true);
  const [image, name, otherFace, remove] = ["img", ".thumb-name", ".other-face", ".remove"].map((part) => thumb.querySelector(part));
  image.addEventListener("error", () => thumb.classList.add("no-picture")); // most browsers cannot show HEIC
  image.src = photo.url;
  name.textContent = photo.face ? `${photo.file.name}, face ${photo.face}` : photo.file.name;
  otherFace.hidden = !photo.face;
  otherFace.addEventListener("click", () => { photo.face = ""; rank(); });
  remove.setAttribute("aria-label", `Remove ${photo.file.name}`);
  remove.addEventListener("click", () => removePhoto(photo));
  return thumb;
}

function drawThumbs() {
  document.querySelector("#thumbs").replaceChildren(...photos.map(thumbOf));
  document.querySelector("label[for=photos-input]").textContent = photos.length ? "Add photos" : "Choose photos";
  const changed = photos.length !== asked.length || photos.some((photo, place) => photo !== asked[place]);
  hint.textContent = changed && document.querySelector("#list") ? "The photos have changed: rank again." : "";
}

// ---- asking

function formData(sent, download) {
  const data = new FormData(form);
  data.delete("photos");
  for (const { file, face } of sent) {
    data.append("photos", file, file.name);
    data.append("face", face);
  }
  if (chosenWeight() !== null) data.set("lambda", chosenWeight());
  data.set("download", download);
  return data;
}

async function problemOf(response) {
  const problem = await response.json().catch(() => ({ title: `The server refused (${response.status})` }));
  const wait = response.headers.get("Retry-After");
  return { title: problem.title, detail: [problem.detail, wait && `Try again in ${count(Number(wait), "second", "seconds")}.`].filter(Boolean).join(" ") };
}

// A server that cannot be reached answers like one that refuses: with a problem.
const post = (data) => fetch(form.getAttribute("action"), { method: "POST", body: data })
  .catch(() => Response.json({ title: "The server did not answer", detail: "Check the connection and try again; nothing was lost." }, { status: 504 }));

function setBusy(now, words) {
  busy = now;
  submit.setAttribute("aria-disabled", now); // not disabled: it keeps the focus
  submit.textContent = now ? words : "Rank disorders";
  submit.classList.toggle("working", now);
  result().setAttribute("aria-busy", now);
  if (now) announce(words);
}

async function rank() {
  if (busy) return;
  if (input && !photos.length) {
    hint.textContent = "Choose at least one photo first.";
    return input.focus();
  }
  setBusy(true, input ? `Ranking ${count(photos.length, "photo", "photos")} …` : "Ranking …");
  hint.textContent = "";
  const sent = [...photos], sentPatient = patient?.value;
  try {
    const response = await post(formData(sent, ""));
    const isPage = response.headers.get("Content-Type")?.startsWith("text/html");
    const page = isPage && new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page && page.querySelector("#result"); // a proxy's error page has none
    if (!next) {
      showProblem(document.querySelector("#problem"), await problemOf(response));
      return document.querySelector("#problem h2").focus();
    }
    [asked, askedPatient] = [sent, sentPatient];
    result().replaceWith(document.adoptNode(next));
    startResult();
    if (input) drawThumbs();
    document.title = page.title;
    (document.querySelector("#problem:not([hidden]) h2") ?? document.querySelector("#result-heading"))?.focus();
  } finally {
    setBusy(false);
  }
}

async function download(button) {
  const problem = document.querySelector("#download-problem");
  problem.hidden = true;
  button.setAttribute("aria-busy", "true");
  announce("Preparing the file …");
  try {
    const data = formData(asked, button.value);
    if (patient) data.set("patient", askedPatient); // another one may be selected by now
    const response = await post(data);
    if (!response.ok) return showProblem(problem, await problemOf(response));
    const named = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
    const link = document.createElement("a");
    let content = await response.blob();
    if (button.value === "html") {
      const [before, after] = (await content.text()).split('<dl class="record" id="record"></dl>');
      content = new Blob([before, writtenRecord().outerHTML, after], { type: "text/html" });
    }
    link.href = URL.createObjectURL(content);
    link.download = named?.[1] ?? `mien.${button.value}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // some browsers read it after the click
    announce(`${link.download} is saved.`);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// ---- the result, after each answer

function startResult() {
  chosenWeight = startAnswer(result(), announce);
  for (const radio of document.querySelectorAll(".faces input")) {
    const choose = () => { const photo = asked[radio.closest("[data-photo]").dataset.photo]; if (photo) photo.face = radio.value; };
    radio.addEventListener("change", choose);
    radio.addEventListener("keydown", (event) => { if (event.key === "Enter") rank(); });
    // a click sends at once; arrow keys (clicks with detail 0) only choose, or nobody could get past the first face
    radio.closest("label").addEventListener("click", (event) => { if (event.detail) { choose(); rank(); } });
  }
  // the slider and the checkbox belong to the form, but Enter on them is no wish to send the photos again
  result().addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches("input")) event.preventDefault(); });
  document.querySelector("#print")?.addEventListener("click", () => window.print());
}

// Who the patient is, and who asks, is typed here and put into the page or the saved file here: it is never sent.
function writtenRecord() {
  const record = document.querySelector("#record");
  record?.replaceChildren(...[...document.querySelectorAll("[data-record]")].filter((field) => field.value.trim()).flatMap((field) => {
    const [name, value] = ["dt", "dd"].map((kind) => document.createElement(kind));
    [name.textContent, value.textContent] = [field.dataset.record, field.value.trim()];
    return [name, value];
  }));
  return record;
}
window.addEventListener("beforeprint", writtenRecord);

// a reload would lose the chosen photos
window.addEventListener("beforeunload", (event) => { if (photos.length) event.preventDefault(); });

if (form) {
  form.noValidate = true; // the photos are in this script, not in the file input
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter?.dataset.download) download(event.submitter);
    else rank();
  });
}
if (input) {
  const take = () => { addPhotos(input.files); input.value = ""; };
  input.addEventListener("change", take);
  take(); // a reloaded page may still hold files
  const zone = document.querySelector("#zone");
  const over = (event) => zone.classList.toggle("over", zone.contains(event.target));
  // a photo dropped beside the zone must not replace the page
  window.addEventListener("dragover", (event) => { event.preventDefault(); over(event); });
  window.addEventListener("dragleave", () => zone.classList.remove("over"));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (zone.contains(event.target)) addPhotos(event.dataTransfer.files);
  });
}
startResult();
