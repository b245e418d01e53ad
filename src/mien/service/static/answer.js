// The ranked list. What it shows follows from the answer, the weight, the view and the filters; the server is not asked again.
import { drawMap } from "./map.js";
import { count, decimals, fold, percentage } from "./words.js";

const FIRST_SHOWN = 10, STEP = 20; // rows at first, and more at each "Show more"
const ON_MAP = 5; // disorders that are numbered there

// The order of the server: Python compares by code points, JavaScript's < by UTF-16 units.
function byCodePoints(a, b) {
  const left = [...a], right = [...b];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at < 0) return left.length - right.length;
  return at < right.length ? left[at].codePointAt(0) - right[at].codePointAt(0) : 1;
}

function ranking(entries, weight, served, placeOfId) {
  // At the served weight the server's own numbers hold; they may be rounded, and ties would fall otherwise.
  const own = weight === served;
  const distance = entries.map((entry) => own ? entry.distance : weight * entry.centroid_distance + (1 - weight) * entry.nearest_distance);
  const order = [...entries.keys()].sort(own
    ? (a, b) => entries[a].rank - entries[b].rank
    : (a, b) => distance[a] - distance[b] || placeOfId[a] - placeOfId[b]);
  const rank = [];
  order.forEach((index, place) => { rank[index] = place + 1; });
  return { distance, order, rank };
}

// A view is "all", "alone-<photo>" or "without-<photo>".
function entryOf(disorder, view) {
  if (view === "all") return disorder;
  const [kind, photo] = view.split("-");
  return disorder[kind][photo];
}

/** Makes the answer in `result` interactive; returns a function that gives the chosen weight. */
export function startAnswer(result, announce) {
  const data = result.querySelector("#answer-data");
  if (!data) return () => null;
  const answer = JSON.parse(data.textContent);
  const [{ disorders, image_ids: images, prediction_set: set }] = answer.queries;
  const inSet = new Set(set?.disorder_ids);
  const served = answer.method.lambda;
  const find = (selector) => result.querySelector(selector);
  const [list, slider, viewSelect, search, minPatients, more] = ["#list", "#lambda", "#view", "#search", "#min-patients", "#more"].map(find);
  const fullBar = Number(list.dataset.fullBar);
  const pattern = list.firstElementChild;

  const nameOf = (disorder) => disorder.disorder_name ?? disorder.disorder_id;
  const searchable = disorders.map((d) => fold(`${nameOf(d)} ${d.disorder_id} ${d.omim ?? ""} ${d.curie ?? ""}`));
  const indexOfId = new Map(disorders.map((d, index) => [d.disorder_id, index]));
  const placeOfId = [];
  [...disorders.keys()].sort((a, b) => byCodePoints(disorders[a].disorder_id, disorders[b].disorder_id))
    .forEach((index, place) => { placeOfId[index] = place; });

  let weight = served, view = "all", limit = FIRST_SHOWN;
  let rankings = new Map(); // of the present weight, each made when first asked for
  function rankingOf(name) {
    if (!rankings.has(name)) {
      rankings.set(name, ranking(disorders.map((d) => entryOf(d, name)), weight, served, placeOfId));
    }
    return rankings.get(name);
  }

  const rows = new Map(); // by disorder's index: a row keeps its open evidence while the list changes
  function rowOf(index) {
    if (!rows.has(index)) {
      const item = pattern.cloneNode(true);
      const fields = Object.fromEntries([...item.querySelectorAll("[data-field]")].map((field) => [field.dataset.field, field]));
      const disorder = disorders[index];
      item.dataset.disorder = disorder.disorder_id;
      item.querySelector("details").open = false;
      fields.name.textContent = nameOf(disorder);
      fields.ids.textContent = [disorder.disorder_name && disorder.disorder_id, disorder.curie ?? disorder.omim].filter(Boolean).join(" · ");
      item.classList.toggle("in-set", inSet.has(disorder.disorder_id));
      fields.set.hidden = !inSet.has(disorder.disorder_id);
      if (fields.probability) fields.probability.lastChild.textContent = percentage(disorder.probability);
      fields["sex-and-age"].hidden = !disorder.sex_and_age;
      fields["sex-and-age"].lastElementChild.textContent = disorder.sex_and_age;
      fields.links.hidden = !disorder.links.length;
      fields.links.replaceChildren(...disorder.links.flatMap(({ name, url }) => {
        const link = Object.assign(document.createElement("a"), { href: url, target: "_blank", rel: "noopener noreferrer" });
        link.textContent = name;
        return [link, " "];
      }));
      fields.support.textContent = `${count(disorder.gallery_patients, "patient", "patients")}, ${count(disorder.gallery_images, "image", "images")}`;
      fields.truth.hidden = answer.truth?.disorder_id !== disorder.disorder_id;
      for (const place of [0, 1, 2]) {
        const nearest = disorder.nearest_cases[place];
        fields[`case-${place}`].hidden = !nearest;
        if (!nearest) continue;
        fields[`case-${place}-patient`].textContent = nearest.patient_id;
        fields[`case-${place}-image`].textContent = nearest.image_id;
        if (slider) fields[`case-${place}-distance`].textContent = decimals(nearest.distance);
      }
      rows.set(index, { item, fields });
    }
    return rows.get(index);
  }

  function writeOutcome(cell, index, name) {
    const { rank, distance } = rankingOf(name);
    cell.textContent = rank[index];
    if (!slider) return;
    const small = document.createElement("small");
    small.textContent = ` (${decimals(distance[index])})`;
    cell.append(small);
  }

  // Faces are asked for when a row is opened, not before: each one that is shown is in the audit log.
  function showFace(figure, shown, address, words) {
    if (!figure) return; // a gallery without faces
    figure.hidden = !shown;
    if (!shown) return;
    figure.lastElementChild.textContent = words;
    figure.firstElementChild.alt = words;
    figure.firstElementChild.src = address;
  }

  function writeEvidence(index) {
    const { fields } = rowOf(index);
    const { nearest_cases: cases, composite, disorder_id: id } = disorders[index];
    for (const place of [0, 1, 2])
      showFace(fields[`face-${place}`], cases[place]?.face, `/v1/faces/${encodeURIComponent(cases[place]?.image_id)}`, `patient ${cases[place]?.patient_id}, ${decimals(cases[place]?.distance ?? null)}`);
    showFace(fields.composite, composite, `/v1/composites/${encodeURIComponent(id)}`, "mean of its patients");
    if (images.length < 2) return;
    writeOutcome(fields.fused, index, "all");
    images.forEach((_, photo) => {
      for (const name of [`alone-${photo}`, `without-${photo}`]) if (fields[name]) writeOutcome(fields[name], index, name);
    });
  }

  function writeRow(index) {
    const { item, fields } = rowOf(index);
    const disorder = disorders[index];
    const { rank, distance } = rankingOf(view);
    const higher = rankingOf("all").rank[index] - rank[index];
    item.dataset.rank = fields.rank.textContent = rank[index];
    fields.moved.hidden = view === "all";
    fields.moved.dataset.way = higher > 0 ? "up" : higher < 0 ? "down" : "same";
    fields["moved-sign"].textContent = higher > 0 ? `▲ ${higher}` : higher < 0 ? `▼ ${-higher}` : "=";
    fields["moved-words"].textContent = higher
      ? `, ${count(Math.abs(higher), "place", "places")} ${higher > 0 ? "higher" : "lower"} than with all photos`
      : ", as with all photos";
    fields.nearest.textContent = `nearest${view === "all" ? "" : " by all photos"}: patient ${disorder.nearest_patient_id}, image ${disorder.nearest_image_id}`;
    if (slider) {
      const { centroid_distance: average, nearest_distance: nearest } = entryOf(disorder, view);
      const percent = (likeness) => `${Math.min(100, Math.max(0, 100 * likeness / fullBar)).toFixed(2)}%`;
      fields.distance.textContent = decimals(distance[index]);
      fields["centroid-bar"].setAttribute("width", percent(weight * (1 - average)));
      fields["nearest-bar"].setAttribute("x", percent(weight * (1 - average)));
      fields["nearest-bar"].setAttribute("width", percent((1 - weight) * (1 - nearest)));
      fields.parts.textContent = disorder.parts_hidden ? "of very few patients: its parts are not shown" : `average ${decimals(average)} · nearest ${decimals(nearest)}`;
    } else {
      fields.band.textContent = fields.band.dataset.band = disorder.band;
      fields.band.hidden = view !== "all"; // bands are known for all photos only
    }
    if (fields.probability) fields.probability.hidden = view !== "all" || weight !== served; // it is of the served list
    if (item.firstElementChild.open) writeEvidence(index); // closed rows are filled when they open
    return item;
  }

  function viewInWords() {
    const sent = Number(find("#state").dataset.photos);
    if (view === "all") return images.length < sent ? `${images.length} of ${sent} photos` : images.length > 1 ? `All ${images.length} photos` : "One photo";
    const [kind, photo] = view.split("-");
    return `${kind === "alone" ? "Only" : "Without"} photo ${Number(photo) + 1}, ${images[photo]}`;
  }

  let map = null;
  let speaking;
  function render() {
    const needle = fold(search.value.trim());
    const least = Number(minPatients.value) || 1;
    const { order, rank } = rankingOf(view);
    const fitting = order.filter((index) => disorders[index].gallery_patients >= least && searchable[index].includes(needle));
    const shown = fitting.slice(0, limit);
    list.replaceChildren(...shown.map(writeRow));
    find("#nothing").hidden = fitting.length > 0;
    list.hidden = !fitting.length; // a list without items is none
    more.parentElement.hidden = fitting.length <= limit;
    more.textContent = `Show ${Math.min(STEP, fitting.length - limit)} more`;

    if (slider) {
      find("#lambda-value").textContent = weight.toFixed(2);
      slider.setAttribute("aria-valuetext", `${weight.toFixed(2)}: ${Math.round(100 * weight)} % average of the disorder, ${Math.round(100 * (1 - weight))} % nearest photo`);
      for (const place of result.querySelectorAll("[data-weight]")) place.textContent = (place.dataset.weight === "average" ? weight : 1 - weight).toFixed(2);
    }
    for (const button of result.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === view);
    if (answer.truth && indexOfId.has(answer.truth.disorder_id)) find("#truth-rank").textContent = `, here at rank ${rank[indexOfId.get(answer.truth.disorder_id)]}`;

    const made = weight === served ? viewInWords() : `${viewInWords()} · weight of the average ${weight.toFixed(2)}, not ${served.toFixed(2)} as in the sentence above`;
    const all = fitting.length === disorders.length;
    const which = shown.length < fitting.length ? `the first ${shown.length} of ` : "";
    find("#state").textContent = `${made} · ${which}${count(fitting.length, "disorder", "disorders")}${all ? " by distance" : ` that ${fitting.length === 1 ? "fits" : "fit"}`}`;
    map?.number(shown.slice(0, ON_MAP).map((index) => ({ id: disorders[index].disorder_id, rank: rank[index] })));

    clearTimeout(speaking); // a moving slider stays silent until it rests
    speaking = setTimeout(() => {
      const first = shown.slice(0, 3).map((index) => `${rank[index]} ${nameOf(disorders[index])}`).join(", ");
      announce(`${find("#state").textContent}. ${first ? `First: ${first}.` : ""}`);
    }, 600);
  }

  let drawing = 0;
  const change = () => {
    cancelAnimationFrame(drawing);
    drawing = requestAnimationFrame(render);
  };
  const setWeight = (value) => { weight = value; rankings = new Map(); change(); };
  const setView = (value) => { view = value; if (viewSelect) viewSelect.value = value; change(); };
  slider?.addEventListener("input", () => setWeight(slider.valueAsNumber));
  find("#lambda-reset")?.addEventListener("click", () => {
    slider.value = slider.dataset.default;
    setWeight(Number(slider.dataset.default));
  });
  viewSelect?.addEventListener("change", () => setView(viewSelect.value));
  for (const button of result.querySelectorAll("[data-view]"))
    button.addEventListener("click", () => setView(button.dataset.view === view ? "all" : button.dataset.view));
  search.addEventListener("input", () => { limit = FIRST_SHOWN; change(); });
  minPatients.addEventListener("input", change);
  more.addEventListener("click", () => {
    const next = list.children.length;
    limit += STEP;
    render();
    list.children[next].querySelector("summary").focus();
  });
  const indexOfRow = (event) => indexOfId.get(event.target.closest("li[data-disorder]")?.dataset.disorder);
  list.addEventListener("toggle", (event) => writeEvidence(indexOfRow(event)), true);

  // list and map point at each other
  const light = (id) => {
    for (const { item } of rows.values()) item.classList.toggle("lit", item.dataset.disorder === id);
    map?.light(id);
  };
  for (const type of ["pointerover", "focusin"]) list.addEventListener(type, (event) => light(disorders[indexOfRow(event)]?.disorder_id));
  for (const type of ["pointerleave", "focusout"]) list.addEventListener(type, () => light(null));
  if (answer.map) {
    map = drawMap(find("#map"), answer.map, {
      nameOf: (id) => nameOf(disorders[indexOfId.get(id)]),
      describe: (id) => `${nameOf(disorders[indexOfId.get(id)])}, rank ${rankingOf(view).rank[indexOfId.get(id)]}`,
      onPoint: light,
      onPick: (id) => {
        const index = indexOfId.get(id);
        if (!rowOf(index).item.isConnected) {
          search.value = nameOf(disorders[index]);
          minPatients.value = 1;
          limit = FIRST_SHOWN;
          render();
        }
        rowOf(index).item.querySelector("summary").focus();
      },
    });
  }
  render();
  return () => weight;
}
