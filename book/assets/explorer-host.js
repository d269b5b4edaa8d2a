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

  async function mount() {
    window.explorers = [];
    const embedded = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
    if (!embedded) return;
    const { state } = JSON.parse(embedded.textContent);
    const { _esm, _css } = Object.values(state).find((entry) => entry.state._esm).state;
    document.head.append(Object.assign(document.createElement("style"), { textContent: _css }));
    const { default: widget } = await import(URL.createObjectURL(new Blob([_esm], { type: "text/javascript" })));
    for (const slot of document.querySelectorAll("[data-explorer]")) {
      const model = new Model(state[slot.dataset.explorer]);
      widget.render({ model, el: slot });
      window.explorers.push(model);
    }
  }
  mount();
})();
