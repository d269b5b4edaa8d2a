// Pure functions of the explorer: `node --test tests/`.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  at, decode, distinct, extent, formatNumber, fraction, halfToNumber, multipliedOut, nearest, shade, stepped, tableOf, tablesOf, thin,
} from "../../lib/explore/explorer.js";

test("half-precision patterns stand for their IEEE numbers", () => {
  const patterns = { 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 2 ** -24, 0x03ff: 1023 * 2 ** -24, 0x3555: 0.333251953125, 0x8000: -0 };
  for (const [bits, number] of Object.entries(patterns)) assert.equal(halfToNumber(Number(bits)), number);
});

test("bytes decode by dtype and scale, also from the middle of a shared buffer", () => {
  const memory = new ArrayBuffer(16), view = new DataView(memory);
  view.setUint16(4, 0x3c00, true);
  view.setUint16(6, 0xc000, true);
  const half = decode({ shape: [2], dtype: "float16", scale: 1, buffer: 0 }, [new DataView(memory, 4, 4)]);
  assert.deepEqual([...half.values], [1, -2]);
  const levels = decode({ shape: [1, 2], dtype: "uint8", scale: 1 / 255, buffer: 1 }, [null, new DataView(Uint8Array.of(0, 255).buffer)]);
  assert.deepEqual([...levels.values], [0, 1]);
  view.setFloat32(8, 1e9, true);
  assert.equal(decode({ shape: [1], dtype: "float32", scale: 1, buffer: 0 }, [new DataView(memory, 8, 4)]).values[0], 1e9);
  view.setFloat64(8, 16777217.1, true);
  assert.equal(decode({ shape: [1], dtype: "float64", scale: 1, buffer: 0 }, [new DataView(memory, 8, 8)]).values[0], 16777217.1);
});

test("positions index the leading axes, row-major, and an axis of length 1 serves all", () => {
  const values = Float32Array.from({ length: 2 * 3 * 4 }, (_, i) => i);
  assert.deepEqual([...at({ shape: [2, 3, 4], values }, [1, 2])], [20, 21, 22, 23]);
  assert.deepEqual([...at({ shape: [2, 1, 3, 4], values }, [1, 7])], [...values.slice(12)]);
  assert.deepEqual(at({ shape: [1, 3], values: ["a", "b", "c"] }, [4, 1]), ["b"]);
});

test("numbers are written as Python writes them", () => {
  const cases = [[3.14159, ".2f", "3.14"], [0.00012345, ".3g", "0.000123"], [1234567, ",d", "1,234,567"], [0.256, ".1%", "25.6%"],
    [12345.678, ",.1f", "12,345.7"], [1e-7, ".2g", "1e-7"], [1234567, ".3g", "1.23e6"], [100, ".3g", "100"], [-0.001, ".2f", "0.00"], [7, "d", "7"],
    [0.5, "", "0.5"], ["山", "", "山"]];
  for (const [value, spec, text] of cases) assert.equal(formatNumber(value, spec), text, `${value} as ${spec}`);
});

test("numbers that differ get texts that differ, with no more digits than that takes", () => {
  assert.deepEqual(distinct([0, 1], 2), ["0", "1"]);
  assert.deepEqual(distinct([1000, 1001], 2), ["1000", "1001"]);
  assert.deepEqual(distinct([1000000, 1000001, 1000002], 4), ["1000000", "1000001", "1000002"]);
  assert.deepEqual(distinct([2e-10, 5e-10, 2e-10], 2), ["2e-10", "5e-10", "2e-10"]);
  assert.deepEqual(distinct([0.1 + 0.2, 0.3], 2), ["0.30000000000000004", "0.29999999999999999"]);
});

test("a table of curves tells its rows apart", () => {
  const far = { kind: "lines", x: [1000000, 1000001], x_format: "d", names: ["f"], x_axis: { label: "" }, format: ".3g" };
  assert.deepEqual(tableOf(far, [1, 2], [1, 2])[1].map(([x]) => x), ["1000000", "1000001"]);
});

test("axes map their limits to 0 and 1, linearly or by ratio", () => {
  assert.equal(fraction(2.5, { limits: [0, 5], log: false }), 0.5);
  assert.ok(Math.abs(fraction(1000, { limits: [10, 100000], log: true }) - 0.5) < 1e-12);
});

test("labels are thinned by 1, 2, 5, 10, … until they fit", () => {
  assert.deepEqual(thin(6, 9), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(thin(26, 6), [0, 5, 10, 15, 20, 25]);
  for (const count of [1, 7, 50, 197, 4096]) assert.ok(thin(count, 8).length <= 8 && thin(count, 8)[0] === 0);
});

test("shades keep the sign and reach the ends of the scale", () => {
  assert.equal(shade(0.25, [0, 1], "sqrt"), 0.5);
  assert.equal(shade(-2, [-2, 1], "linear"), -1);
  assert.equal(shade(1, [-2, 1], "linear"), 0.5);
  assert.equal(shade(0, [0, 0], "linear"), 0);
});

test("nearest entry and extent", () => {
  assert.equal(nearest([0, 1, 4], 2.4), 1);
  assert.deepEqual(extent(Float32Array.of(3, -1, 2)), [-1, 3]);
});

test("a table holds each number once, rows down and columns across", () => {
  const panel = { kind: "heatmap", rows: ["r0", "r1"], columns: ["a", "b", "c"], format: "d" };
  assert.deepEqual(tableOf(panel, [9, 2, 3], [0, 1, 2, 3, 4, 5]), [["", "a", "b", "c"], [["r0", "0", "1", "2"], ["r1", "3", "4", "5"]]]);
  const curves = { kind: "lines", x: [0, 0.5], x_format: ".4g", names: ["f", "g"], x_axis: { label: "t" }, format: "d" };
  assert.deepEqual(tableOf(curves, [2, 2], [1, 2, 3, 4]), [["t", "f", "g"], [["0", "1", "3"], ["0.5", "2", "4"]]]);
});

const ZH = { name: ["「", "」"], dot: "·", row: "行", column: "列", stop: "，", colon: "：", masked: "这一格被遮住", matrices: ["左", "右", "积"] };
const EN = { ...ZH, name: ["", ""], dot: " · ", row: "row", column: "column", stop: ", ", masked: "masked" };
// 2 × 3 by 3 × 4, so that a transposition shows
const PRODUCT = { kind: "product", rows: ["一", "岁"], inner: ["0", "1", "2"], columns: ["枯", "荣", "野", "火"], named: [true, true],
  names: ["Q", "", ""], format: ".1f", factor_format: ".1f", label: "" };
const NOW = { left: [1, -0.5, 2, 3, 0, -1], right: [1, 2, 3, 4, 0, 1, 0, -1, 5, 6, 7, 8], values: [11, 13.5, 17, 20.5, -2, 0, 2, 4] };

test("a cell of a product is its row times its column, negative factors in brackets", () => {
  const said = (panel, now, cell, words) => multipliedOut(panel, now, cell, words).map(([text]) => text).join("");
  assert.equal(said(PRODUCT, NOW, [0, 3], ZH), "「一」·「火」 = 1.0 × 4.0 + (−0.5) × (−1.0) + 2.0 × 8.0 = 20.5");
  assert.equal(said({ ...PRODUCT, named: [false, true] }, NOW, [1, 0], EN), "row 1 · 枯 = 3.0 × 1.0 + 0.0 × 0.0 + (−1.0) × 5.0 = −2.0");
  const divided = { ...PRODUCT, divisor: "√4", product_format: ".2f" };
  const now = { ...NOW, products: NOW.values, values: NOW.values.map((x) => x / 2), mask: [1, 1, 1, 1, 1, 1, 1, 0] };
  assert.equal(said(divided, now, [1, 3], ZH), "「岁」·「火」 = 3.0 × 4.0 + 0.0 × (−1.0) + (−1.0) × 8.0 = 4.00，÷ √4 = 2.0，这一格被遮住");
  assert.ok(!said(divided, now, [1, 2], ZH).includes("遮住"));
});

test("factors are told apart by the side that they come from", () => {
  const parts = multipliedOut(PRODUCT, NOW, [1, 1], ZH);
  assert.deepEqual(parts.filter(([, side]) => side === "left").map(([text]) => text), ["「岁」", "3.0", "0.0", "(−1.0)"]);
  assert.deepEqual(parts.filter(([, side]) => side === "right").map(([text]) => text), ["「荣」", "2.0", "1.0", "6.0"]);
});

test("arrow keys step from cell to cell and stop at the edges", () => {
  assert.deepEqual(stepped("ArrowRight", [1, 2], [2, 4]), [1, 3]);
  assert.deepEqual(stepped("ArrowRight", [1, 3], [2, 4]), [1, 3]);
  assert.deepEqual(stepped("ArrowDown", [1, 3], [2, 4]), [1, 3]);
  assert.deepEqual(stepped("ArrowUp", [1, 3], [2, 4]), [0, 3]);
  assert.deepEqual(stepped("End", [0, 1], [2, 4]), [0, 3]);
  assert.equal(stepped("Tab", [0, 1], [2, 4]), undefined);
});

test("a product has a table for each of its three matrices, at the sliders' positions", () => {
  const shaped = (shape, values) => ({ shape, values });
  const arrays = { left: shaped([1, 2, 3], NOW.left), right: shaped([2, 3, 4], [...NOW.right, ...NOW.right.map((x) => -x)]),
    values: shaped([2, 2, 4], [...NOW.values, ...NOW.values.map((x) => -x)]), mask: shaped([1, 2, 4], [1, 0, 1, 1, 1, 1, 1, 1]) };
  const [left, right, result] = tablesOf(PRODUCT, arrays, [1], ZH);
  assert.deepEqual([left[0], right[0], result[0]], ["Q", "右", "积"]);
  assert.deepEqual(left[1], [["", "0", "1", "2"], [["一", "1.0", "-0.5", "2.0"], ["岁", "3.0", "0.0", "-1.0"]]]);
  assert.deepEqual(right[1][1][2], ["2", "-5.0", "-6.0", "-7.0", "-8.0"]);
  assert.deepEqual(result[1][1][0], ["一", "-11.0", "-13.5", "-17.0", "-20.5"]);
  assert.deepEqual([result[2](0, 1), result[2](1, 1)], ["这一格被遮住", ""]);
});
