"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const ink = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const config = {displayModeBar: false, responsive: true};
/* Plotly takes some HTML in its texts, and in templates %{...} for a figure. */
const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%\{/g, "%&#123;");

function sizeText(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = Math.abs(count), unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1024; unit++; }
  const places = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return (count < 0 ? "−" : "") + value.toFixed(places) + " " + units[unit];
}
const countText = count => Math.round(count).toLocaleString("en");
const quantity = (value, unit) => unit === "bytes" ? sizeText(value) : countText(value);

/* A colour per name, so that a function looks the same in every view: warm for the program's own,
   cool for libraries. */
function nameColour(name, kind) {
  if (kind === "root") return ink("rule");
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  const turn = (hash % 97) / 97, step = (hash % 89) / 89;
  const hue = kind === "program" ? 14 + 30 * turn : 200 + 22 * turn;
  const strength = kind === "program" ? (dark.matches ? 58 : 82) : (dark.matches ? 22 : 30);
  const light = dark.matches ? 36 + 10 * step : 66 + 12 * step;
  return `hsl(${hue},${strength}%,${light}%)`;
}

/* Red for more and green for less, the stronger the larger its part of the whole. */
function changeColour(change, whole) {
  const share = Math.min(1, Math.sqrt(Math.abs(change) / Math.max(1, whole)) * 1.6);
  if (!change || share < 0.02) return dark.matches ? "hsl(40,4%,32%)" : "hsl(40,10%,85%)";
  const hue = change > 0 ? 10 : 150;
  return dark.matches ? `hsl(${hue},${20 + 55 * share}%,${34 + 10 * share}%)`
                      : `hsl(${hue},${30 + 50 * share}%,${84 - 26 * share}%)`;
}

const flame = document.getElementById("flame");
const LETTER = 7.25;  // pixels of the flame graph's font
let view = data.flame.first || 0;
let level = 0;  // the node whose width is the page's

/* Without what stands in angle brackets, which is most of a C++ name. */
function plainName(name) {
  let text = "", depth = 0;
  if (/^<|operator/.test(name)) return name;
  for (const letter of name) {
    if (letter === "<") { if (depth++ === 0) text += "<…"; }
    if (letter === ">") depth--;
    if (depth <= 0 || letter === ">" && depth === 0) text += letter;
  }
  return text;
}

/* As much of a name as its frame has room for. */
function fitted(name, width) {
  const letters = Math.floor((width - 8) / LETTER);
  if (letters < 3) return "";
  if (name.length <= letters) return name;
  const plain = plainName(name);
  if (plain.length <= letters) return plain;
  const last = plain.split("::").pop();
  return last.length <= letters ? last : last.slice(0, letters - 1) + "…";
}

function hover(flameData, i, whole) {
  const nodes = flameData.nodes, chosen = flameData.views[view], values = nodes.values[i];
  const lines = [`<b>${escaped(nodes.name[i])}</b>`];
  if (nodes.module[i]) lines.push(escaped(nodes.module[i]));
  const value = values[chosen.value];
  const share = (100 * value / Math.max(1, whole)).toFixed(1) + " %";
  if (flameData.change) {
    const [before, after] = flameData.change.map(index => values[index]);
    lines.push(`${sizeText(before)} → ${sizeText(after)}`,
      (after >= before ? "+" : "") + sizeText(after - before));
  } else {
    lines.push(`${quantity(value, chosen.unit)}, ${share}`);
    if (chosen.unit === "bytes") lines.push(countText(values[flameData.objects[view]]) + " objects");
    lines.push(countText(nodes.samples[i]) + " samples since the start");
  }
  return lines.join("<br>") + "<extra></extra>";
}

/* The rows below the node that is as wide as the page, with its own. */
function rows(nodes, shown) {
  const row = {[level]: 1};
  let deepest = 1;
  for (const i of shown) {  // callers come before what they call
    if (!(nodes.parent[i] in row) || i === level) continue;
    row[i] = row[nodes.parent[i]] + 1;
    deepest = Math.max(deepest, row[i]);
  }
  return deepest;
}

function drawFlame() {
  const one = data.flame, nodes = one.nodes, at = one.views[view].value;
  const shown = nodes.name.map((_, i) => i).filter(i => nodes.values[i][at] > 0 || i === 0);
  const whole = nodes.values[0][at];
  const colour = i => one.change && i
    ? changeColour(nodes.values[i][one.change[1]] - nodes.values[i][one.change[0]], whole)
    : nameColour(nodes.name[i], nodes.kind[i]);
  if (!(nodes.values[level][at] > 0)) level = 0;
  const pixels = (flame.clientWidth || 1000) / Math.max(1, nodes.values[level][at]);
  const width = i => Math.min(flame.clientWidth || 1000, nodes.values[i][at] * pixels);
  const trace = {
    type: "icicle",
    level: String(level),
    ids: shown.map(String),
    labels: shown.map(i => escaped(nodes.name[i])),
    parents: shown.map(i => nodes.parent[i] < 0 ? "" : String(nodes.parent[i])),
    values: shown.map(i => nodes.values[i][at]),
    branchvalues: "total",
    leaf: {opacity: 1},
    hovertemplate: shown.map(i => hover(one, i, whole)),
    text: shown.map(i => escaped(fitted(nodes.name[i], width(i)))),
    texttemplate: "%{text}",
    textfont: {family: "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace", size: 12,
               color: dark.matches ? "#f6f4ef" : "#20160f"},
    textposition: "middle left",
    insidetextfont: {size: 12},
    marker: {colors: shown.map(colour), line: {color: ink("paper"), width: 1}},
    tiling: {orientation: "v", pad: 0},
    pathbar: {visible: true, side: "top", thickness: 24, textfont: {size: 12, color: ink("text")}},
  };
  const layout = {
    height: Math.min(1500, 56 + 25 * rows(nodes, shown)),
    margin: {l: 0, r: 0, t: 30, b: 0},
    paper_bgcolor: "rgba(0,0,0,0)",
    uniformtext: {minsize: 12, mode: "show"},
    hoverlabel: {align: "left", bgcolor: ink("paper"), bordercolor: ink("soft"),
                 font: {color: ink("text"), family: "system-ui, sans-serif", size: 13}},
  };
  flame.dataset.shown = nodes.name[level];
  return Plotly.react(flame, [trace], layout, config);
}

function zoomTo(event) {
  if (event.nextLevel === undefined) return false;
  level = Number(event.nextLevel || 0);
  drawFlame();
  return false;
}

function drawViews() {
  const place = document.getElementById("views");
  data.flame.views.forEach((one, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = one.label;
    button.dataset.view = one.name;
    button.setAttribute("aria-pressed", String(index === view));
    button.addEventListener("click", () => {
      view = index;
      for (const other of place.children) other.setAttribute("aria-pressed", String(other === button));
      drawFlame();
    });
    place.append(button);
  });
}

/* One unit for a whole axis. */
function axisUnit(values) {
  const most = values.reduce((a, b) => Math.max(a, b), 1);
  const power = Math.min(5, Math.floor(Math.log2(most) / 10));
  return [1024 ** power, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]];
}

function chartLayout(height, unit) {
  const axis = {gridcolor: ink("rule"), zeroline: false, linecolor: ink("soft"), color: ink("soft")};
  return {
    height, margin: {l: 58, r: 12, t: 8, b: 42},
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: "system-ui, sans-serif", size: 12, color: ink("text")},
    xaxis: {...axis, showgrid: false},
    yaxis: {...axis, rangemode: "tozero", title: {text: unit, standoff: 6}},
    legend: {orientation: "h", x: 0, y: 1.14}, hovermode: "x unified",
    hoverlabel: {bgcolor: ink("paper"), bordercolor: ink("soft"), font: {color: ink("text")}},
  };
}

function drawTimeline() {
  const place = document.getElementById("timeline"), one = data.timeline;
  if (!place || !one) return;
  const [factor, unit] = axisUnit(one.held.concat(one.live, one.rss));
  const line = (name, seconds, values, colour, extra) => ({
    type: "scatter", mode: "lines", name, x: seconds, y: values.map(v => v / factor),
    text: values.map(sizeText), hovertemplate: "%{text}", line: {color: ink(colour), width: 2}, ...extra,
  });
  const traces = [
    line("live (requested)", one.seconds, one.live, "live", {fill: "tozeroy"}),
    line("held for blocks", one.seconds, one.held, "held"),
    line("free with pages (dirty)", one.seconds, one.dirty, "dirty"),
  ];
  const asPoint = {mode: "markers", marker: {color: ink("rss"), size: 9}};
  const asLine = {line: {color: ink("rss"), width: 2, dash: "dot"}};
  if (one.rss.length) traces.push(line("RSS", one.rss_seconds, one.rss, "rss", one.rss.length > 1 ? asLine : asPoint));
  const layout = chartLayout(330, unit);
  layout.margin.t = 34;
  layout.xaxis.title = {text: "seconds since the start", standoff: 8};
  Plotly.react(place, traces, layout, config);
}

function drawSizes() {
  const place = document.getElementById("sizes"), one = data.sizes;
  if (!place || !one) return;
  const [factor, unit] = axisUnit(one.bytes);
  const trace = {
    type: "bar", x: one.label, y: one.bytes.map(v => v / factor), marker: {color: ink("live")},
    text: one.bytes.map((v, i) => `${sizeText(v)}, ${countText(one.objects[i])} objects, ${one.samples[i]} samples`),
    textposition: "none", hovertemplate: "%{text}<extra></extra>",
  };
  const layout = chartLayout(300, unit);
  layout.bargap = 0.15;
  layout.xaxis.tickangle = -45;
  layout.margin.b = 70;
  Plotly.react(place, [trace], layout, config);
}

/* Tables whose headings sort them: cells say by what. */
function makeSortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = heading.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.by;
      const numeric = [...body.rows].every(row => !isNaN(key(row)));
      const order = (a, b) => numeric ? key(a) - key(b) : key(a).localeCompare(key(b));
      [...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)).forEach(row => body.append(row));
    });
  });
}

function draw() {
  drawFlame();
  drawTimeline();
  drawSizes();
}

drawViews();
document.querySelectorAll("table.sortable").forEach(makeSortable);
draw();
flame.on("plotly_icicleclick", zoomTo);
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(drawFlame, 150);
});
dark.addEventListener("change", draw);
