// The search page's own part: Sphinx finds the pages, this shows the sections of each that hold the reader's words.
"use strict";

const phrasesOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);

/** The text around the first place of a phrase, or its beginning where only the heading has it: about 100 characters. */
function excerptAround(text, phrase) {
  const at = Math.max(0, text.toLowerCase().indexOf(phrase));
  const start = Math.max(0, at - 40);
  const end = Math.min(text.length, at + phrase.length + 60);
  return (start > 0 ? "…" : "") + text.slice(start, end) + (end < text.length ? "…" : "");
}

/** Every section with its own words, those of the sections in it left out: [{ id, title, text }]. */
function sectionsOf(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll(".headerlink, script, style, .katex-mathml").forEach((element) => element.remove());
  return [...page.querySelectorAll("article section[id]")].reverse().map((section) => {
    section.remove(); // innermost first
    const heading = section.querySelector("h1, h2, h3, h4");
    heading.remove();
    return { id: section.id, title: heading.textContent, text: section.textContent.replace(/\s+/g, " ").trim() };
  }).reverse();
}

const parseQuery = Search._parseQuery;
Search._parseQuery = (query) => {
  const parsed = parseQuery(query);
  parsed[3] = new Set(phrasesOf(query)); // highlight what was typed, not its pairs of characters
  localStorage.setItem("sphinx_highlight_terms", phrasesOf(query).join(" "));
  return parsed;
};

const plainSummary = Search.makeSearchSummary;
Search.makeSearchSummary = (html, terms, anchor) => {
  const phrases = phrasesOf(new URLSearchParams(location.search).get("q") ?? "");
  const hits = sectionsOf(html)
    .filter((section) => !anchor || anchor === `#${section.id}`)
    .map((section) => [section, phrases.find((phrase) => `${section.title} ${section.text}`.toLowerCase().includes(phrase))])
    .filter(([, phrase]) => phrase);
  return hits.length ? listOf(hits) : plainSummary(html, terms, anchor);
};

/** A link and an excerpt for each section. */
function listOf(hits) {
  const list = document.createElement("ul");
  list.className = "hits";
  for (const [section, phrase] of hits) {
    const item = list.appendChild(document.createElement("li"));
    const link = item.appendChild(document.createElement("a"));
    link.textContent = section.title;
    link.href = `#${section.id}`;
    const excerpt = item.appendChild(document.createElement("p"));
    excerpt.className = "context";
    excerpt.textContent = excerptAround(section.text, phrase);
  }
  queueMicrotask(() => {
    const page = list.parentElement.querySelector("a").href; // Sphinx has put the list under its link to the page
    list.querySelectorAll("a").forEach((link) => (link.href = new URL(link.hash, page)));
  });
  return list;
}
