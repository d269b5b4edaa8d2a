// Draws arrays with named slider axes. One ES module, no import, and no mathematics of the subject: Python's kernels computed
// the numbers; here they are indexed and drawn. anywidget runs it in Jupyter, a small host on the published page.

export const WORDS = {
  en: { table: "Numbers", reset: "Reset", play: "Play", pause: "Pause", hint: "arrow keys step · hover or tap reads a value",
    row: "row", column: "column", from: "from", to: "to", rest: "Arrow keys read single values.", stop: ", ", colon: ": ",
    name: ["", ""], dot: " · ", masked: "this cell is masked", matrices: ["left matrix", "right matrix", "product"] },
  zh: { table: "数值表", reset: "复位", play: "播放", pause: "暂停", hint: "方向键微调 · 悬停或点按读数",
    row: "行", column: "列", from: "从", to: "到", rest: "方向键逐个读数。", stop: "，", colon: "：",
    name: ["「", "」"], dot: "·", masked: "这一格被遮住", matrices: ["左矩阵", "右矩阵", "乘积"] },
};

// ---- numbers: pure functions, tested with `node --test` ------------------------------------------------------------------

/** The number that an IEEE half-precision pattern stands for (finite: Python ships no other). */
export function halfToNumber(bits) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

/** Decode one array of the model: {shape, dtype, scale, buffer} or {shape, texts} -> {shape, values}. */
export function decode({ shape, dtype, scale, buffer, texts }, buffers) {
  if (texts) return { shape, values: texts };
  const { buffer: memory, byteOffset, byteLength } = buffers[buffer];
  const view = new DataView(memory, byteOffset, byteLength);
  const read = {
    uint8: (i) => scale * view.getUint8(i),
    float16: (i) => halfToNumber(view.getUint16(2 * i, true)),
    float32: (i) => view.getFloat32(4 * i, true),
    float64: (i) => view.getFloat64(8 * i, true),
  }[dtype];
  const values = new Float64Array(product(shape));
  for (let i = 0; i < values.length; i++) values[i] = read(i);
  return { shape, values };
}

const product = (numbers) => numbers.reduce((total, n) => total * n, 1);

/** The part of an array at the sliders' positions; an axis of length 1 serves every position. */
export function at({ shape, values }, positions) {
  const size = product(shape.slice(positions.length));
  const index = positions.reduce((start, position, axis) => start * shape[axis] + (shape[axis] === 1 ? 0 : position), 0);
  return values.subarray ? values.subarray(index * size, (index + 1) * size) : values.slice(index * size, (index + 1) * size);
}

/** Write a number as Python's format(value, spec) would: "d", ".2f", ".3g", ".1%", each with "," for thousands. */
export function formatNumber(value, spec) {
  if (typeof value === "string") return value;
  const [, comma, digits = "", kind = "g"] = /^(,?)(?:\.(\d+))?([a-z%]?)$/.exec(spec);
  const places = digits === "" ? undefined : Number(digits);
  let text;
  if (kind === "d") text = fixed(value, 0);
  else if (kind === "f") text = fixed(value, places);
  else if (kind === "%") text = `${fixed(100 * value, places)}%`;
  else text = general(value, Math.max(places ?? 6, 1));
  text = /^-[0.]+%?$/.test(text) ? text.slice(1) : text;
  return comma ? text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ",")) : text;
}

/** toFixed, but an exact tie such as 0.125 goes to the even digit, as in Python; only eighths and the like can tie. */
function fixed(value, places) {
  if (Math.abs(value) >= 2 ** 53) return BigInt(value) + (places ? `.${"0".repeat(places)}` : "");
  const halves = value * 2 ** (places + 1);
  if (!Number.isInteger(halves) || halves % 2 === 0) return value.toFixed(places);
  const below = Math.floor(value * 10 ** places);
  return ((below % 2 === 0 ? below : below + 1) / 10 ** places).toFixed(places);
}

/** toExponential as [mantissa, exponent], but an exact tie goes to the even digit. */
function scientific(value, digits) {
  const [all, power] = value.toExponential(100).split("e");
  const cut = all.indexOf(".") + digits;  // behind the digits that are kept, the point among them
  const kept = digits === 1 ? all.slice(0, cut - 1) : all.slice(0, cut), rest = all.slice(cut);
  const down = Number(kept.at(-1)) % 2 === 0 && /^50*$/.test(rest);
  return down ? [kept, Number(power)] : value.toExponential(digits - 1).split("e").map((part, i) => i ? Number(part) : part);
}

const withoutZeros = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;

function general(value, digits) {
  if (value === 0) return "0";
  const [mantissa, exponent] = scientific(value, digits);
  return exponent < -4 || exponent >= digits ? `${withoutZeros(mantissa)}e${exponent}` : withoutZeros(fixed(value, digits - 1 - exponent));
}

/** Numbers with `digits` significant digits, or as many more as tell different ones apart. */
export function distinct(values, digits) {
  for (; ; digits++) {
    const texts = values.map((value) => formatNumber(value, `.${digits}g`));
    if (digits === 17 || new Set(texts).size === new Set(values).size) return texts;
  }
}

/** Position on a linear or logarithmic axis, 0 at the low limit and 1 at the high one. */
export function fraction(value, { limits: [low, high], log }) {
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** Index of the entry nearest to a value. */
export function nearest(entries, value) {
  let best = 0;
  for (let i = 1; i < entries.length; i++) if (Math.abs(entries[i] - value) < Math.abs(entries[best] - value)) best = i;
  return best;
}

/** Which of `count` labels to write so that at most `room` stand on the axis: every 1st, 2nd, 5th, 10th, … */
export function thin(count, room) {
  for (let scale = 1; ; scale *= 10) {
    const step = [scale, 2 * scale, 5 * scale].find((n) => Math.ceil(count / n) <= room);
    if (step) return Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
  }
}

/** Where a value stands on a colour scale: -1…1, negative towards the second hue. */
export function shade(value, [low, high], scale) {
  const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const share = low >= 0 ? Math.min(Math.max((value - low) / (high - low || 1), 0), 1) : Math.min(Math.max(value / size, -1), 1);
  return scale === "sqrt" ? Math.sign(share) * Math.sqrt(Math.abs(share)) : share;
}

/** Smallest and largest of an array. */
export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}

/** A number as a matrix prints it, with a minus as wide as a digit. */
const printed = (value, spec) => formatNumber(value, spec).replaceAll("-", "−");

/** A cell of a product multiplied out: [text, "left", "right" or nothing] in order; the numbers, the result too, are Python's. */
export function multipliedOut(panel, now, [row, column], words) {
  const across = panel.inner.length, width = panel.columns.length, cell = row * width + column;
  const call = (names, index, named, word) => named ? words.name[0] + names[index] + words.name[1] : `${word} ${index}`;
  const factor = (value) => printed(value, panel.factor_format).replace(/^−.*/, "($&)");
  const parts = [[call(panel.rows, row, panel.named[0], words.row), "left"], [words.dot],
    [call(panel.columns, column, panel.named[1], words.column), "right"], [" = "]];
  for (let s = 0; s < across; s++)
    parts.push([s ? " + " : ""], [factor(now.left[row * across + s]), "left"], [" × "], [factor(now.right[s * width + column]), "right"]);
  if (panel.divisor) parts.push([` = ${printed(now.products[cell], panel.product_format)}${words.stop}÷ ${panel.divisor}`]);
  parts.push([" = "], [printed(now.values[cell], panel.format), "result"]);
  if (now.mask && !now.mask[cell]) parts.push([words.stop + words.masked]);
  return parts;
}

/** The cell that a key leads to from [row, column], within the matrix; nothing for other keys. */
export function stepped(key, [row, column], [rows, columns]) {
  const next = {
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
    Home: [row, 0], End: [row, columns - 1],
  }[key];
  return next && [Math.min(Math.max(next[0], 0), rows - 1), Math.min(Math.max(next[1], 0), columns - 1)];
}

// ---- elements ------------------------------------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const node = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };  // else JupyterLab takes the arrow keys for its headings
const REST = 400;  // milliseconds without a step, after which a sentence is said
const WIDTH = 340, HEIGHT = 230;  // of every plot, in its own units; the page scales it

/** Width of a label in plot units: a Chinese character is as wide as two Latin ones. */
const breadth = (text) => [...text].reduce((width, char) => width + (char.codePointAt(0) > 0x2e80 ? 11 : 6), 0);
const widest = (labels) => Math.max(0, ...labels.map(breadth));

/** An output that screen readers find, but don't read aloud at every change: the explorer says one sentence instead. */
const output = (attributes = {}) => element("output", { "aria-live": "off", ...attributes });

/** A plot: an svg that fills its box, reads values under pointer, touch and arrow keys, and writes them into an output. */
function plotBox(figure, box, { cells, read, mark, announce }) {
  const svg = element("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
  const plot = element("div", { class: "plot", tabindex: "0", role: "img", ...OWN_KEYS }, svg);
  const value = output({ class: "value" });
  figure.append(plot, value);
  let cell = null;
  const show = (next) => {
    cell = next;
    mark(cell);
    value.textContent = cell ? read(cell) : "";
  };
  const point = (event) => {
    const { left, top, width, height } = svg.getBoundingClientRect();
    const x = ((event.clientX - left) / width * WIDTH - box.left) / box.width;
    const y = ((event.clientY - top) / height * HEIGHT - box.top) / box.height;
    const [rows, columns] = cells();
    if (x < 0 || x >= 1 || y < 0 || y >= 1) return show(null);
    show([Math.floor(y * rows), columns === 1 ? 0 : Math.floor(x * columns)]);
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(null));
  plot.addEventListener("blur", () => show(null));
  plot.addEventListener("keydown", (event) => {
    const [rows, columns] = cells();
    const next = stepped(event.key, cell ?? [0, 0], [rows, columns]);
    if (event.key === "Escape") show(null);
    if (!next) return;
    event.preventDefault();
    show(cell ? next : [0, 0]);
    announce(value.textContent);
  });
  return { svg, plot, again: () => cell && show(cell) };
}

function text(x, y, words, anchor = "middle") {
  return element("svg:text", { x, y, "text-anchor": anchor }, words);
}

/** A canvas of one pixel a cell behind the plot's svg, stretched over the box. */
function raster(plot, box, rows, columns) {
  const canvas = element("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const percent = (part, whole) => `${100 * part / whole}%`;
  Object.assign(canvas.style, { left: percent(box.left, WIDTH), top: percent(box.top, HEIGHT),
    width: percent(box.width, WIDTH), height: percent(box.height, HEIGHT) });
  plot.prepend(canvas);
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  return { data: pixels.data, paint: () => context.putImageData(pixels, 0, 0) };
}

// ---- the six kinds: each builds its figure once and returns draw(positions) ------------------------------------------------

function heatmap(figure, panel, { arrays, sliderIndex, palette, words, announce }) {
  const [rows, columns] = arrays.values.shape.slice(-2);
  const rowLabels = thin(rows, 9), columnLabels = thin(columns, Math.max(2, Math.floor(270 / (widest(panel.columns) + 8))));
  const left = Math.min(110, 12 + widest(rowLabels.map((i) => panel.rows[i])));
  const box = { left, top: panel.y_label ? 18 : 6, width: WIDTH - left - 8, height: 0 };
  box.height = HEIGHT - box.top - (panel.x_label ? 34 : 20);
  const middle = (index, count, start, size) => start + (index + 0.5) / count * size;
  const frame = (name) => element("svg:rect", { class: name, visibility: "hidden" });
  const marked = frame("mark"), cursor = frame("cursor");
  let values;
  const place = (rect, row, column, across) => {
    const width = box.width / columns, height = box.height / rows;
    for (const [key, number] of Object.entries({ x: box.left + column * width, y: box.top + row * height, width: across * width, height }))
      rect.setAttribute(key, number);
    rect.setAttribute("visibility", "visible");
  };
  const { svg, plot, again } = plotBox(figure, box, {
    announce,
    cells: () => [rows, columns],
    read: ([row, column]) => `${panel.y_label || words.row} ${panel.rows[row]} · ${panel.x_label || words.column} ${panel.columns[column]}`
      + `${words.colon}${formatNumber(values[row * columns + column], panel.format)}`,
    mark: (cell) => cell ? place(cursor, cell[0], cell[1], 1) : cursor.setAttribute("visibility", "hidden"),
  });
  svg.append(...rowLabels.map((i) => text(left - 5, middle(i, rows, box.top, box.height) + 4, panel.rows[i], "end")),
    ...columnLabels.map((i) => text(middle(i, columns, box.left, box.width), box.top + box.height + 14, panel.columns[i])),
    text(box.left + box.width / 2, HEIGHT - 4, panel.x_label), text(0, 11, panel.y_label, "start"), marked, cursor);
  figure.querySelector("figcaption").append(legend(panel));
  const { data, paint } = raster(plot, box, rows, columns);
  return (positions) => {
    values = at(arrays.values, positions);
    const { zero, full, negative } = palette();
    for (let i = 0; i < values.length; i++) {
      const share = shade(values[i], panel.limits, panel.scale), end = share < 0 ? negative : full;
      for (let channel = 0; channel < 3; channel++) data[4 * i + channel] = zero[channel] + Math.abs(share) * (end[channel] - zero[channel]);
      data[4 * i + 3] = 255;
    }
    paint();
    if (panel.mark_row !== undefined) place(marked, positions[sliderIndex(panel.mark_row)], 0, columns);
    again();
  };
}

function legend({ limits: [low, high] }) {
  const bar = element("i", { class: low < 0 ? "diverging" : "sequential" });
  const end = Math.max(Math.abs(low), Math.abs(high));
  const [first, last] = distinct(low < 0 ? [-end, end] : [low, high], 2);
  return element("span", { class: "scale", "aria-hidden": "true" }, element("span", {}, first), bar, element("span", {}, last));
}

function lines(figure, panel, { arrays, sliderIndex, sliders, words, announce }) {
  const { x_axis: xAxis, y_axis: yAxis, names } = panel, points = panel.x.length;
  const left = 12 + widest(yAxis.ticks.map(([, label]) => label));
  const box = { left, top: yAxis.label ? 20 : 8, width: WIDTH - left - 12, height: 0 };
  box.height = HEIGHT - box.top - (xAxis.label ? 34 : 20);
  const px = (value) => box.left + fraction(value, xAxis) * box.width;
  const py = (value) => box.top + (1 - fraction(value, yAxis)) * box.height;
  const xs = panel.x.map(px);
  const line = (name) => element("svg:line", { class: name, y1: box.top, y2: box.top + box.height, visibility: "hidden" });
  const marked = line("mark"), cursor = line("cursor");
  const [dotX = [], dotY = []] = panel.dots;
  const dots = dotX.map((x, i) => element("svg:circle", { class: "dot", cx: px(x), cy: py(dotY[i]), r: 3 }));
  const paths = names.map((_, i) => element("svg:path", { class: `series series-${i}${panel.dashed[i] ? " dashed" : ""}` }));
  const hits = names.map((_, i) => element("svg:circle", { class: "hit", r: 4.5, visibility: "hidden" }));
  let values;
  const stand = (node, x) => {
    node.setAttribute("x1", x); node.setAttribute("x2", x); node.setAttribute("visibility", "visible");
  };
  const { svg, again } = plotBox(figure, box, {
    announce,
    cells: () => [1, 1000],
    read: ([, column]) => {
      const index = nearest(xs, box.left + column / 1000 * box.width);
      const each = names.map((name, i) => `${name} ${formatNumber(values[i * points + index], panel.format)}`.trim());
      return `${xAxis.label || "x"} ${formatNumber(panel.x[index], panel.x_format)}${words.colon}${each.join(" · ")}`;
    },
    mark: (cell) => cell ? stand(cursor, xs[nearest(xs, box.left + cell[1] / 1000 * box.width)]) : cursor.setAttribute("visibility", "hidden"),
  });
  svg.append(
    ...yAxis.ticks.flatMap(([value, label]) => [
      element("svg:line", { class: "axis", x1: box.left, x2: box.left + box.width, y1: py(value), y2: py(value) }),
      text(left - 6, py(value) + 4, label, "end")]),
    ...xAxis.ticks.map(([value, label]) => text(px(value), box.top + box.height + 14, label)),
    text(box.left + box.width / 2, HEIGHT - 4, xAxis.label), text(0, 11, yAxis.label, "start"),
    marked, ...dots, ...paths, ...hits, cursor);
  if (names.some(Boolean)) figure.querySelector("figcaption").append(element("span", { class: "names", "aria-hidden": "true" }, ...names.map((name, i) =>
    element("span", { class: `series-${i}${panel.dashed[i] ? " dashed" : ""}` }, element("i"), name))));
  return (positions) => {
    values = at(arrays.values, positions);
    paths.forEach((path, i) => {
      let d = "";
      for (let j = 0; j < points; j++) d += `${j ? "L" : "M"}${xs[j].toFixed(1)},${py(values[i * points + j]).toFixed(1)}`;
      path.setAttribute("d", d);
    });
    if (arrays.dot_weights) {
      const weights = at(arrays.dot_weights, positions), top = extent(weights)[1] || 1;
      dots.forEach((dot, i) => {
        dot.style.setProperty("--share", (weights[i] / top).toFixed(3));
        dot.setAttribute("r", (3 + 3 * weights[i] / top).toFixed(2));
      });
    }
    if (panel.mark_x !== undefined) {
      const slider = sliderIndex(panel.mark_x), x = sliders[slider].values[positions[slider]];
      stand(marked, px(x));
      hits.forEach((hit, i) => {
        if (panel.dashed[i]) return;
        hit.setAttribute("cx", px(x)); hit.setAttribute("cy", py(values[i * points + nearest(panel.x, x)])); hit.setAttribute("visibility", "visible");
      });
    }
    again();
  };
}

function bars(figure, panel, { arrays }) {
  const rows = panel.names.map((name) => ({ bar: element("i"), number: output(), name }));
  figure.append(element("div", {}, ...rows.flatMap(({ name, bar, number }) => [element("span", {}, name), element("span", {}, bar), number])));
  return (positions) => at(arrays.values, positions).forEach((value, i) => {
    rows[i].bar.style.width = `${Math.min(100, 100 * value / panel.limits[1])}%`;
    rows[i].number.textContent = formatNumber(value, panel.format);
    rows[i].number.classList.toggle("cut", value === 0);
  });
}

function image(figure, panel, { arrays, words, announce }) {
  const [height, width] = arrays.values.shape.slice(panel.channels === 3 ? -3 : -2), channels = panel.channels;
  const scale = Math.min(WIDTH / width, HEIGHT / height);
  const box = { width: width * scale, height: height * scale, left: (WIDTH - width * scale) / 2, top: (HEIGHT - height * scale) / 2 };
  const cursor = element("svg:rect", { class: "cursor", width: scale, height: scale, visibility: "hidden" });
  let values;
  const { svg, plot, again } = plotBox(figure, box, {
    announce,
    cells: () => [height, width],
    read: ([row, column]) => `${words.row} ${row} · ${words.column} ${column}${words.colon}`
      + Array.from({ length: channels }, (_, i) => formatNumber(values[(row * width + column) * channels + i], panel.format)).join(" "),
    mark: (cell) => {
      cursor.setAttribute("visibility", cell ? "visible" : "hidden");
      if (cell) { cursor.setAttribute("x", box.left + cell[1] * scale); cursor.setAttribute("y", box.top + cell[0] * scale); }
    },
  });
  svg.append(cursor);
  const { data, paint } = raster(plot, box, height, width);
  return (positions) => {
    values = at(arrays.values, positions);
    for (let i = 0; i < height * width; i++) {
      for (let channel = 0; channel < 3; channel++) data[4 * i + channel] = 255 * values[channels * i + (channels === 3 ? channel : 0)];
      data[4 * i + 3] = 255;
    }
    paint();
    again();
  };
}

function readout(figure, panel, { arrays, sliders, sliderIndex }) {
  const sentence = output({ class: "say" });
  const fields = panel.parts.map((part) => typeof part === "string" ? part : { ...part, node: element("b") });
  sentence.append(...fields.map((field) => field.node ?? field));
  figure.append(sentence);
  return (positions) => {
    for (const { node, field, format } of fields) {
      if (!node) continue;
      if (field in arrays) node.textContent = formatNumber(at(arrays[field], positions)[0], format);
      else {
        const slider = sliderIndex(field), { labels, values } = sliders[slider];
        node.textContent = format ? formatNumber(values[positions[slider]], format) : labels[positions[slider]];
      }
    }
  };
}

/** One matrix of a product as a grid of cells with headings; `role` is that of the whole, "grid" where cells can be picked. */
function matrix(place, role, [rows, columns], [name, note], fallback) {
  const cells = rows.map(() => columns.map(() => element("div", { role: `${role === "grid" ? "grid" : ""}cell` })));
  const rowHeads = rows.map((row) => element("div", { role: "rowheader" }, row));
  const columnHeads = columns.map((column) => element("div", { role: "columnheader" }, column));
  const corner = element("div", { role: `${role === "grid" ? "grid" : ""}cell` });
  const grid = element("div", { class: "cells", role, "aria-label": name || fallback, style: `--columns: ${columns.length}` },
    element("div", { role: "row" }, corner, ...columnHeads),
    ...cells.map((line, i) => element("div", { role: "row" }, rowHeads[i], ...line)));
  const title = element("div", { class: "title" }, element("b", {}, name), element("span", {}, note));
  return { box: element("div", { class: place }, title, grid), grid, cells, rowHeads, columnHeads };
}

function matrixProduct(figure, panel, { arrays, words, announce }) {
  const { rows, inner, columns } = panel;
  const [left, right, result] = [["left", "table", [rows, inner]], ["right", "table", [inner, columns]], ["result", "grid", [rows, columns]]]
    .map(([place, role, names], i) => matrix(place, role, names, [panel.names[i], panel.notes[i]], words.matrices[i]));
  const stage = element("div", { class: "stage", role: "group" }, right.box, left.box, result.box);
  const value = output({ class: "value" });
  figure.append(stage, value);
  const all = ["left", "right", "values"].flatMap((name) => Array.from(arrays[name].values, (number) => printed(number, panel.format)));
  const ems = (texts, air) => `${Math.min(7, widest(texts) / 10 + air).toFixed(2)}em`;
  stage.style.setProperty("--cell", ems([...all, ...inner, ...columns], 0.6));
  stage.style.setProperty("--head", ems([...rows, ...inner], 1));

  const places = new Map(result.cells.flatMap((line, i) => line.map((cell, j) => [cell, [i, j]])));
  let picked = panel.start, now;
  const paint = () => {
    const [row, column] = picked;
    left.cells.forEach((line, i) => line.forEach((cell) => cell.classList.toggle("picked", i === row)));
    right.cells.forEach((line) => line.forEach((cell, j) => cell.classList.toggle("picked", j === column)));
    for (const { rowHeads } of [left, result]) rowHeads.forEach((head, i) => head.classList.toggle("picked", i === row));
    for (const { columnHeads } of [right, result]) columnHeads.forEach((head, j) => head.classList.toggle("picked", j === column));
    for (const [cell, [i, j]] of places) {
      const is = i === row && j === column;
      cell.classList.toggle("picked", is);
      cell.setAttribute("aria-selected", is);
      cell.tabIndex = is ? 0 : -1;
    }
    value.replaceChildren(...multipliedOut(panel, now, picked, words).map(([text, side]) =>
      side ? element("span", { class: side }, text) : text.replace(/ ?[×÷] /, (sign) => sign.replaceAll(" ", "\u00a0"))));
  };
  const pick = (cell) => {
    picked = cell;
    paint();
  };
  const point = ({ target }) => {
    const cell = places.get(target);
    if (cell && cell.join() !== picked.join()) pick(cell);
  };
  for (const [key, setting] of Object.entries(OWN_KEYS)) result.grid.setAttribute(key, setting);
  for (const event of ["pointermove", "pointerdown", "focusin"]) result.grid.addEventListener(event, point);
  result.grid.addEventListener("keydown", (event) => {
    const next = stepped(event.key, picked, [rows.length, columns.length]);
    if (!next) return;
    event.preventDefault();
    pick(next);
    result.cells[next[0]][next[1]].focus();
    announce(value.textContent);
  });
  const fit = () => {  // as on paper where that fits, perhaps in smaller print, else one below the other
    for (const form of ["", "small", "stacked", "stacked small"]) {
      stage.className = `stage ${form}`.trim();
      if (stage.scrollWidth <= stage.clientWidth) return;
    }
  };
  new ResizeObserver(fit).observe(figure.querySelector("figcaption"));  // as wide as the figure, and no higher when stacked

  return (positions) => {
    now = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, at(array, positions)]));
    for (const [{ cells }, values] of [[left, now.left], [right, now.right], [result, now.values]])
      cells.flat().forEach((cell, i) => { cell.textContent = printed(values[i], panel.format); });
    if (now.mask) result.cells.flat().forEach((cell, i) => {
      cell.classList.toggle("blocked", !now.mask[i]);
      if (now.mask[i]) cell.removeAttribute("aria-label");
      else cell.setAttribute("aria-label", cell.textContent + words.stop + words.masked);
    });
    paint();
  };
}

const KINDS = { heatmap, lines, bars, image, readout, product: matrixProduct };

// ---- text alternative and table of numbers -----------------------------------------------------------------------------------

/** What a plot shows at the current positions, in words. */
function describe(panel, values, words) {
  const [low, high] = extent(values);
  const range = `${words.from} ${formatNumber(low, panel.format)} ${words.to} ${formatNumber(high, panel.format)}`;
  return [panel.label || panel.kind, panel.note, range].filter(Boolean).join(words.stop) + `. ${words.rest}`;
}

/** The numbers of a panel at the current positions: [headings, rows], or nothing where they are text already. */
export function tableOf(panel, shape, values) {
  const write = (value) => formatNumber(value, panel.format);
  if (panel.kind === "lines") {
    const points = panel.x.length;
    return [[panel.x_axis.label || "x", ...panel.names], panel.x.map((x, j) => [formatNumber(x, panel.x_format), ...panel.names.map((_, i) => write(values[i * points + j]))])];
  }
  if (panel.kind === "bars") return [["", panel.label], panel.names.map((name, i) => [name, write(values[i])])];
  if (panel.kind === "readout") return null;
  const [height, width, channels = 1] = panel.channels === 3 ? shape.slice(-3) : shape.slice(-2);
  const cell = (i, j) => Array.from({ length: channels }, (_, c) => write(values[(i * width + j) * channels + c])).join(" ");
  const names = panel.columns ?? Array.from({ length: width }, (_, j) => String(j));
  return [["", ...names], Array.from({ length: height }, (_, i) => [panel.rows?.[i] ?? String(i), ...names.map((_, j) => cell(i, j))])];
}

/** The tables of a panel: [caption, [headings, rows], remark on a cell] each; a product has three matrices. */
export function tablesOf(panel, arrays, positions, words) {
  if (!arrays.values) return [];
  if (panel.kind === "product") {
    const mask = arrays.mask && at(arrays.mask, positions);
    const remark = (i, j) => mask && !mask[i * panel.columns.length + j] ? words.masked : "";
    return [["left", panel.rows, panel.inner], ["right", panel.inner, panel.columns], ["values", panel.rows, panel.columns, remark]]
      .map(([name, rows, columns, remark], i) => [[panel.label, panel.names[i] || words.matrices[i]].filter(Boolean).join(words.colon),
        tableOf({ rows, columns, format: panel.format }, arrays[name].shape, at(arrays[name], positions)), remark]);
  }
  const table = tableOf(panel, arrays.values.shape, at(arrays.values, positions));
  return table ? [[panel.label, table]] : [];
}

function tableElement(caption, kind, [headings, rows], remark) {
  const heads = headings.map((heading) => heading ? element("th", { scope: "col" }, heading) : element("td"));
  const number = (text, note) => element("td", {}, text, ...note ? [element("small", {}, ` ${note}`)] : []);
  const body = rows.map(([first, ...rest], i) =>
    element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((text, j) => number(text, remark?.(i, j)))));
  return element("div", { class: "numbers", tabindex: "0", role: "region", "aria-label": caption || kind }, element("table", {},
    element("caption", {}, caption), element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)));
}

// ---- the widget ----------------------------------------------------------------------------------------------------------------

/** Colours of the theme in force, as [r, g, b]. */
function paletteOf(root) {
  const style = getComputedStyle(root);
  const channels = (name) => [1, 3, 5].map((i) => parseInt(style.getPropertyValue(name).trim().slice(i, i + 2), 16));
  return { zero: channels("--explorer-zero"), full: channels("--explorer-full"), negative: channels("--explorer-negative") };
}

/** Call back when the page's theme changes; returns what ends it. */
function onThemeChange(callback) {
  const observer = new MutationObserver(callback);
  const attributeFilter = ["data-theme", "theme", "data-jp-theme-light", "data-vscode-theme-kind"];
  for (const node of [document.documentElement, document.body]) observer.observe(node, { attributeFilter });
  return () => observer.disconnect();
}

function sliderControl(slider, index, model, words, stops) {
  const input = element("input", { type: "range", min: 0, max: slider.values.length - 1, step: 1, "aria-label": slider.name, ...OWN_KEYS });
  const value = output();
  const control = element("div", { class: "slider" }, element("label", {}, element("b", {}, slider.name), input), value);
  input.addEventListener("input", () => move(model, index, Number(input.value)));
  if (slider.play) {
    const play = element("button", { type: "button", "aria-label": `${words.play} ${slider.name}` }, "▶");
    let timer;
    const stop = () => { clearInterval(timer); timer = undefined; play.textContent = "▶"; play.setAttribute("aria-label", `${words.play} ${slider.name}`); };
    const step = () => {
      const next = model.get(`slider_${index}`) + 1;
      if (next < slider.values.length) move(model, index, next);
      if (next >= slider.values.length - 1) stop();
    };
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (model.get(`slider_${index}`) === slider.values.length - 1) move(model, index, 0);
      timer = setInterval(step, 150);
      play.textContent = "❚❚";
      play.setAttribute("aria-label", `${words.pause} ${slider.name}`);
    });
    stops.push(stop);
    control.append(play);
  }
  const show = (position) => {
    input.value = position;
    input.setAttribute("aria-valuetext", slider.labels[position]);
    value.textContent = slider.labels[position];
  };
  return { control, show };
}

/** The one element whose text is read aloud, and how to fill it: the last sentence, once the reader has come to rest. */
function announcer() {
  const status = element("div", { class: "aloud", role: "status", "aria-live": "polite" });
  let timer;
  const hush = () => clearTimeout(timer);
  const announce = (sentence) => {
    hush();
    timer = setTimeout(() => { status.textContent = typeof sentence === "function" ? sentence() : sentence; }, REST);
  };
  return { status, announce, hush };
}

function move(model, index, position) {
  model.set(`slider_${index}`, position);
  model.save_changes();
}

function render({ model, el }) {
  const sliders = model.get("sliders"), buffers = model.get("buffers"), words = WORDS[model.get("language")];
  const positions = () => sliders.map((_, i) => model.get(`slider_${i}`));
  const stops = [];
  const controls = sliders.map((slider, i) => sliderControl(slider, i, model, words, stops));
  const plots = element("div", { class: "panels" }), says = element("div", { class: "says" }), tables = element("div", { class: "tables", hidden: "" });
  const tableButton = element("button", { type: "button", "aria-expanded": "false" }, words.table);
  const resetButton = element("button", { type: "button" }, words.reset);
  const { status, announce, hush } = announcer();
  stops.push(hush);
  const root = element("div", { class: "explorer", role: "group", "aria-label": model.get("label"), lang: model.get("language") },
    element("header", {}, ...controls.map(({ control }) => control)), plots, says, tables,
    element("footer", {}, tableButton, resetButton, element("span", {}, words.hint)), status);
  el.append(root);

  let colours = paletteOf(root);
  const context = { sliders, words, announce, palette: () => colours, sliderIndex: (name) => sliders.findIndex((slider) => slider.name === name) };
  const panels = model.get("panels").map((panel) => {
    const arrays = Object.fromEntries(Object.entries(panel.arrays).map(([name, array]) => [name, decode(array, buffers)]));
    const figure = element("figure", { class: panel.kind }, element("figcaption", {}, element("b", {}, panel.label), element("span", {}, panel.note)));
    (panel.kind === "readout" ? says : plots).append(figure);
    return { panel, arrays, figure, draw: KINDS[panel.kind](figure, panel, { ...context, arrays }) };
  });

  const drawTables = (now) => tables.hidden || tables.replaceChildren(...panels.flatMap(({ panel, arrays }) =>
    tablesOf(panel, arrays, now, words).map(([caption, table, remark]) => tableElement(caption, panel.kind, table, remark))));
  const draw = () => {
    const now = positions();
    controls.forEach(({ show }, i) => show(now[i]));
    for (const { panel, arrays, figure, draw: drawPanel } of panels) {
      drawPanel(now);
      figure.querySelector(".plot, .stage")?.setAttribute("aria-label", describe(panel, at(arrays.values, now), words));
    }
    drawTables(now);
  };
  let frame;
  const drawSoon = () => {  // several moves, one frame
    frame ??= requestAnimationFrame(() => {
      frame = undefined;
      draw();
    });
  };
  const moved = () => {
    drawSoon();
    announce(() => [...root.querySelectorAll(".product .value, .says output")].map((say) => say.textContent).join(" "));
  };
  draw();
  sliders.forEach((_, i) => model.on(`change:slider_${i}`, moved));
  tableButton.addEventListener("click", () => {
    tables.hidden = !tables.hidden;
    tableButton.setAttribute("aria-expanded", String(!tables.hidden));
    drawTables(positions());
  });
  resetButton.addEventListener("click", () => sliders.forEach((slider, i) => move(model, i, slider.start)));
  stops.push(onThemeChange(() => { colours = paletteOf(root); drawSoon(); }));
  return () => {
    stops.forEach((stop) => stop());
    sliders.forEach((_, i) => model.off(`change:slider_${i}`, moved));
    cancelAnimationFrame(frame);
  };
}

export default { render };
