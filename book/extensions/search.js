// The reader's side of search.py. A run of two characters or more needs its pairs only: they hold its characters.
var splitQuery = (query) => {
  const han = "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff";
  const runs = query.match(new RegExp(`[${han}]+|(?:(?![${han}])[\\p{L}\\p{N}_])+`, "gu")) ?? [];
  const pairs = (run) => Array.from({ length: run.length - 1 }, (_, i) => run.slice(i, i + 2));
  return runs.flatMap((run) => (run.length > 1 && new RegExp(`^[${han}]`).test(run) ? pairs(run) : [run]));
};
