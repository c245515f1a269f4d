// A list that the server gives in pages, kept as it was when first asked for.
//
// Where decisions take items out of what the server lists (a filter by status), the places of later items move there but not
// here: as many as are known to have left before a page are subtracted from where it is asked for. Where the server's count shows
// that more has changed than is known, `stale` is called, and the list is to be asked for anew.

export const SIZE = 100;

export class PagedList {
  /** `fetch(offset, limit)` -> {total, items}, where `offset()` is asked as late as can be; `remains(item)`: whether the server would still list it. */
  constructor(fetch, { remains = () => true, loaded = () => {}, stale = () => {}, failed = () => {} } = {}) {
    Object.assign(this, { fetch, remains, loaded, stale, failed, total: 0, items: [], asked: new Map() });
  }

  /** The first page, or the one that `more` asks for. */
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

  /** The item at a place, fetched if need be. */
  async fetched(i) {
    await this.#load(Math.floor(i / SIZE));
    return this.items[i];
  }

  /** The place of the first item whose `key` is not below a value, in a list sorted by it. */
  async locate(key, value) {
    let [low, high] = [0, this.total];
    while (low < high) {
      const middle = (low + high) >> 1;
      const item = await this.fetched(middle);
      if (!item || item[key] >= value) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #load(page) {
    if (!this.asked.has(page)) this.asked.set(page, this.#ask(page));
    return this.asked.get(page);
  }

  async #ask(page) {
    const place = page * SIZE;
    try {
      const answer = await this.fetch(() => place - this.#numGone(place), SIZE);
      if (answer.total + this.#numGone(this.total) !== this.total) this.stale();
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
