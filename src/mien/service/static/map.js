// The map of disorder centroids, as SVG. Texts are set as text nodes; styles come from the style sheet.

const WIDTH = 400, HEIGHT = 360, MARGIN = 18;
const REACH = 14; // how near to a dot the pointer must be

function element(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function fitting(places) {
  const [xs, ys] = [places.map((p) => p.x), places.map((p) => p.y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((WIDTH - 2 * MARGIN) / (right - left || 1), (HEIGHT - 2 * MARGIN) / (high - low || 1));
  return ({ x, y }) => ({ x: WIDTH / 2 + scale * (x - (left + right) / 2), y: HEIGHT / 2 - scale * (y - (low + high) / 2) });
}

const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const inside = (box) => box.x >= 2 && box.y >= 2 && box.x + box.width <= WIDTH - 2 && box.y + box.height <= HEIGHT - 2;
const boxAround = ({ x, y }, half) => ({ x: x - half, y: y - half, width: 2 * half, height: 2 * half });

// The nearest free box for a label of this size: beside the dot first, then on wider and wider circles.
function freeBox(dot, width, height, taken) {
  for (let away = 8; away < 150; away += 8)
    for (const degrees of [0, 180, -35, 35, -145, 145, -90, 90]) {
      const angle = degrees * Math.PI / 180;
      const [x, y] = [dot.x + away * Math.cos(angle), dot.y + away * Math.sin(angle)];
      const box = { x: Math.cos(angle) < -0.1 ? x - width : Math.cos(angle) > 0.1 ? x : x - width / 2, y: y - height / 2, width, height };
      if (inside(box) && !taken.some((other) => overlap(box, other))) return box;
    }
  return null;
}

/** Draws the map into `figure`; returns `number(listed)`, which labels disorders, and `light(id)`, which highlights one. */
export function drawMap(figure, { points, place }, { nameOf, describe, onPoint = () => {}, onPick = () => {} }) {
  const svg = figure.querySelector("svg");
  const line = figure.querySelector(".map-name");
  const toPage = fitting(place ? [...points, place] : points);
  const dotOf = new Map(points.map((point) => [point.disorder_id, toPage(point)]));
  const key = figure.querySelector(".map-key");

  const labels = element("g", {});
  const lamp = element("circle", { class: "lamp", r: 7, visibility: "hidden" });
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.append(element("g", { class: "dots" }, ...[...dotOf].map(([id, { x, y }]) => element("circle", { "data-disorder": id, cx: x, cy: y, r: 2.2 }))), labels, lamp);
  const patient = place && toPage(place);
  if (patient) svg.insertBefore(element("path", { class: "place", id: "map-place", d: `M${patient.x} ${patient.y - 9}l9 9-9 9-9-9z` }), lamp);

  function light(id) {
    const dot = dotOf.get(id);
    lamp.setAttribute("visibility", dot ? "visible" : "hidden");
    line.textContent = dot ? describe(id) : "";
    if (dot) { lamp.setAttribute("cx", dot.x); lamp.setAttribute("cy", dot.y); }
  }

  function number(listed) {
    const known = listed.filter(({ id }) => dotOf.has(id));
    const taken = known.map(({ id }) => boxAround(dotOf.get(id), 6));
    if (patient) taken.push(boxAround(patient, 10));
    labels.replaceChildren(...known.map(({ id, rank }) => {
      const dot = dotOf.get(id);
      const mark = element("g", { class: "mark", tabindex: 0, role: "button", "aria-label": `${rank} ${nameOf(id)}: show in the list`, "data-disorder": id });
      const box = freeBox(dot, 9 * String(rank).length + 6, 16, taken); // names are in the key below: here they would be cut
      if (box) {
        taken.push(box);
        const edge = { x: Math.min(Math.max(dot.x, box.x), box.x + box.width), y: Math.min(Math.max(dot.y, box.y), box.y + box.height) };
        mark.append(element("line", { x1: dot.x, y1: dot.y, x2: edge.x, y2: edge.y }), element("text", { x: box.x + 3, y: box.y + 13 }, rank));
      }
      mark.append(element("circle", { cx: dot.x, cy: dot.y, r: 5 }));
      return mark;
    }));
    key?.replaceChildren(...known.map(({ id, rank }) => {
      const line = document.createElement("li");
      line.value = rank;
      line.textContent = nameOf(id);
      return line;
    }));
  }

  // the nearest dot counts, so that a small dot is easy to hit
  function dotAt(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let found = null, least = REACH;
    for (const [id, dot] of dotOf) {
      const away = Math.hypot(dot.x - at.x, dot.y - at.y);
      if (away < least) [found, least] = [id, away];
    }
    return found;
  }
  const point = (id) => { light(id); onPoint(id); };
  const marked = (event) => event.target.closest(".mark")?.dataset.disorder;
  svg.addEventListener("pointermove", (event) => point(marked(event) ?? dotAt(event)));
  svg.addEventListener("pointerleave", () => point(null));
  figure.addEventListener("focusin", (event) => point(marked(event))); // on the svg it would make a stop of the tab key
  figure.addEventListener("focusout", () => point(null));
  svg.addEventListener("click", (event) => { const id = marked(event) ?? dotAt(event); if (id) onPick(id); });
  svg.addEventListener("keydown", (event) => {
    if (!marked(event) || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    onPick(marked(event));
  });
  return { number, light };
}
