// A list that is loaded from the server in pages and keeps the order in which it was first loaded.
//
// With a filter by status, a decision removes an item from the server's list, so that later items move up on the server but
// not here. The number of items known to be removed before a page is subtracted from the offset of its request. If the
// server's total shows that more has changed than the page knows, or the list has been ranked again, `stale` is called, and the list must be loaded again.

export const SIZE = 100;

export class PagedList {
  /**
   * `fetch(offset, limit)` returns {total, items}; it calls `offset()` as late as possible. `remains(item)` is whether the
   * server's list still contains an item.
   */
  constructor(fetch, { remains = () => true, loaded = () => {}, stale = () => {}, failed = () => {} } = {}) {
    Object.assign(this, { fetch, remains, loaded, stale, failed, total: 0, items: [], asked: new Map() });
  }

  /** Load the first page, or the page that the parameters in `more` ask for. */
  async start(more = {}) {
    this.first = await this.fetch(() => 0, SIZE, more);
    this.total = this.first.total;
    const offset = this.first.offset ?? 0;
    this.#put(offset, this.first.items);
    this.asked.set(offset / SIZE, Promise.resolve());
    return this;
  }

  at(i) {
    return this.items[i];
  }

  ensure(first, last) {
    for (let page = Math.floor(first / SIZE); page * SIZE < Math.min(last, this.total); page++) this.#load(page);
  }

  /** The item at an index, loaded if necessary. */
  async fetched(i) {
    await this.#load(Math.floor(i / SIZE));
    return this.items[i];
  }

  #load(page) {
    if (!this.asked.has(page)) this.asked.set(page, this.#ask(page));
    return this.asked.get(page);
  }

  async #ask(page) {
    const place = page * SIZE;
    try {
      const answer = await this.fetch(() => place - this.#numGone(place), SIZE);
      if (answer.total + this.#numGone(this.total) !== this.total || answer.taught !== this.first.taught) this.stale();
      this.#put(place, answer.items);
      this.loaded();
    } catch (error) {
      this.asked.delete(page);
      this.failed(error);
    }
  }

  #put(place, items) {
    items.forEach((item, i) => {
      if (place + i < this.total) this.items[place + i] = item;
    });
  }

  #numGone(before) {
    let found = 0;
    for (const i in this.items) if (Number(i) < before && !this.remains(this.items[i])) found++;
    return found;
  }
}
