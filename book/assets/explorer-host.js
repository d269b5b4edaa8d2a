// Mounts the page's explorers without a kernel: a model with anywidget's five methods over the widget state that the build embedded.
(() => {
  const bytes = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

  class Model {
    #values;
    #listeners = new Map();

    constructor({ state, buffers = [] }) {
      this.#values = { ...state };
      for (const { path, data } of buffers) {
        const last = path.at(-1);
        const holder = path.slice(0, -1).reduce((node, key) => node[key], this.#values);
        holder[last] = new DataView(bytes(data).buffer);
      }
    }
    get(name) { return this.#values[name]; }
    set(name, value) {
      if (this.#values[name] === value) return;
      this.#values[name] = value;
      for (const callback of this.#listeners.get(`change:${name}`) ?? []) callback();
    }
    save_changes() {}
    on(event, callback) { this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), callback]); }
    off(event, callback) { this.#listeners.set(event, (this.#listeners.get(event) ?? []).filter((known) => known !== callback)); }
  }

  const FAILED = { zh: "这个演示没能启动，下面是它的图。", en: "This explorer didn't start; here is its picture." };

  /** Show the picture that stands there for readers without JavaScript, under one sentence that says why. */
  function fallBack(slot, error) {
    console.error(error);
    const picture = document.createElement("template");
    picture.innerHTML = slot.querySelector("noscript")?.textContent ?? "";
    const message = document.createElement("p");
    message.className = "explorer-failed";
    message.textContent = FAILED[document.documentElement.lang.slice(0, 2)] ?? FAILED.en;
    slot.replaceChildren(message, picture.content);
  }

  /** The widget's code and the states of all explorers, as the build embedded them. */
  async function load() {
    const { state } = JSON.parse(document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]').textContent);
    const { _esm, _css } = Object.values(state).find((entry) => entry.state._esm).state;
    document.head.append(Object.assign(document.createElement("style"), { textContent: _css }));
    const { default: widget } = await import(URL.createObjectURL(new Blob([_esm], { type: "text/javascript" })));
    return { state, widget };
  }

  async function mount() {
    window.explorers = [];
    const slots = [...document.querySelectorAll("[data-explorer]")];
    if (!slots.length) return;
    try {
      const { state, widget } = await load();
      for (const slot of slots) mountOne(slot, state, widget);
    } catch (error) {
      for (const slot of slots) fallBack(slot, error);
    }
  }

  /** One that fails leaves the others alive. */
  function mountOne(slot, state, widget) {
    try {
      const model = new Model(state[slot.dataset.explorer]);
      widget.render({ model, el: slot });
      window.explorers.push(model);
    } catch (error) {
      fallBack(slot, error);
    }
  }
  mount();
})();
