// The questions of a short session: findings to decide on and sentences to check, one after the other.

export const LENGTH = 50;
export const PART = 10;

const keyOf = ({ finding, sentence }) => (finding ? `finding ${finding.rank}` : `sentence ${sentence.sentence_number}`);

export class Questions {
  /** `fetch(count)` returns {items}; `isOpen(question)` is whether it still has to be asked. */
  constructor(fetch, isOpen = () => true, length = LENGTH) {
    Object.assign(this, { fetch, isOpen, length, queue: [], asked: new Set(), current: null, number: 0 });
  }

  /** The next question, or null after the last one. Nothing is asked twice. */
  async next() {
    this.current = null;
    if (this.number >= this.length) return null;
    for (let isFresh = false; ; isFresh = true) {
      let one = this.queue.shift();
      while (one && !this.#isWanted(one)) one = this.queue.shift();
      if (one) {
        this.asked.add(keyOf(one));
        this.number++;
        this.current = one;
        return one;
      }
      if (isFresh) return null;
      this.queue = (await this.fetch(PART + this.asked.size)).items;
    }
  }

  /** Ask the current question again later: the reviewer has gone back to an earlier one. */
  putBack() {
    if (!this.current) return;
    this.asked.delete(keyOf(this.current));
    this.queue.unshift(this.current);
    this.current = null;
    this.number--;
  }

  /** Load the questions again before the next one, because the findings were ranked again. */
  refresh() {
    this.queue = [];
  }

  #isWanted(one) {
    return !this.asked.has(keyOf(one)) && this.isOpen(one);
  }
}
