// A list of any length: only the visible rows and the selected one exist as elements. A listbox with a roving tab stop.

const SPARE = 6;

export class VirtualList {
  /**
   * `source` is {total, at(i), ensure(first, last)}. `draw(row, item, i)` fills a row; `chosen(i, item)` is called when a
   * row is selected, `opened(i)` when it is double-clicked.
   */
  constructor(box, { draw, chosen, opened }) {
    Object.assign(this, { box, draw, chosen, opened, source: null, at: -1, stop: 0, rows: new Map() });
    this.inside = document.createElement("div");
    this.inside.setAttribute("role", "presentation");
    box.append(this.inside);
    let frame = 0;
    box.addEventListener("scroll", () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => this.refresh());
    });
    new ResizeObserver(() => this.refresh()).observe(box);
    box.addEventListener("click", (event) => this.#onRow(event, (i) => this.choose(i, { focus: true })));
    box.addEventListener("dblclick", (event) => this.#onRow(event, (i) => this.opened?.(i)));
  }

  /** Show another source. `at` is selected unless it is -1; `stop` is then the row that the Tab key leads to. */
  show(source, { at = -1, stop = 0 } = {}) {
    this.source = source;
    this.at = at;
    this.stop = at >= 0 ? at : Math.max(0, Math.min(stop, source.total - 1));
    this.rows.forEach((row) => row.remove());
    this.rows.clear();
    this.#setHeight();
    this.reveal(this.stop);
    this.refresh();
  }

  choose(i, { focus = false } = {}) {
    if (!this.source || i < 0 || i >= this.source.total) return false;
    this.at = this.stop = i;
    this.reveal(i);
    this.refresh();
    if (focus) this.focus();
    this.chosen?.(i, this.source.at(i));
    return true;
  }

  /** Select the row `step` rows further; if no row is selected, the tab stop. */
  move(step) {
    if (!this.source?.total) return false;
    const next = this.at < 0 ? this.stop : Math.max(0, Math.min(this.at + step, this.source.total - 1));
    return this.choose(next, { focus: true });
  }

  focus() {
    const row = this.rows.get(this.stop);
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  }

  get hasFocus() {
    return this.box.contains(document.activeElement);
  }

  /** The keys that move the selection. */
  get keys() {
    return {
      j: () => this.move(1),
      ArrowDown: () => this.move(1),
      k: () => this.move(-1),
      ArrowUp: () => this.move(-1),
      Home: () => this.choose(0, { focus: true }),
      End: () => this.choose((this.source?.total ?? 0) - 1, { focus: true }),
      PageDown: () => this.move(this.pageLength),
      PageUp: () => this.move(-this.pageLength),
    };
  }

  get pageLength() {
    return Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
  }

  reveal(i) {
    const top = i * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) {
      this.box.scrollTop = top + this.height - this.box.clientHeight;
    }
  }

  /** Draw the visible rows. Rows that are already drawn are drawn again only if `items` is true. */
  refresh({ items = false } = {}) {
    if (!this.source || this.box.offsetParent === null) return;
    this.#setHeight();
    const { total } = this.source;
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - SPARE);
    const last = Math.min(total, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + SPARE);
    for (const [i, row] of this.rows) {
      if ((i < first || i >= last) && (i !== this.stop || i >= total)) {
        row.remove();
        this.rows.delete(i);
      }
    }
    if (last > first) this.source.ensure(first, last);
    for (let i = first; i < last; i++) this.#row(i, items);
    if (this.stop < total) this.#row(this.stop, items);
  }

  #setHeight() {
    const size = parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 3.25;
    this.height = size * parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.inside.style.height = `${this.source.total * this.height}px`;
  }

  #row(i, isDrawnAgain) {
    let row = this.rows.get(i);
    const item = this.source.at(i);
    if (!row) {
      row = document.createElement("div");
      row.setAttribute("role", "option");
      row.id = `${this.box.id}-${i}`;
      this.rows.set(i, row);
      const after = [...this.rows].filter(([j]) => j > i).sort(([a], [b]) => a - b)[0];
      this.inside.insertBefore(row, after?.[1] ?? null);
    }
    row.style.transform = `translateY(${i * this.height}px)`;
    row.tabIndex = i === this.stop ? 0 : -1;
    row.setAttribute("aria-selected", String(i === this.at));
    row.setAttribute("aria-setsize", String(this.source.total));
    row.setAttribute("aria-posinset", String(i + 1));
    if (row.item !== item || isDrawnAgain || !row.hasChildNodes()) {
      row.item = item;
      if (item) this.draw(row, item, i);
      else row.textContent = "…";
    }
  }

  #onRow(event, action) {
    const row = event.target.closest("[role=option]");
    if (row) action(Number(row.getAttribute("aria-posinset")) - 1);
  }
}
