// Follow a Holdfast stream from a web page or from Node.js, over restarts of the daemon, without gap or repeat.
//
//   import { follow } from "./live.js";
//   for await (const event of follow("/api/streams/run:1/tail", token)) console.log(event.seq, event.type);
//
// It uses fetch instead of EventSource, because EventSource cannot send the header Authorization, and a token must not
// stand in a URL.

const SILENCE_MS = 45_000; // the daemon sends a heartbeat every 15 seconds
const PAUSES_MS = [100, 200, 500, 1000, 2000, 5000];

/** Yields the events after `after`, then each new one, until the stream is closed or `signal` is aborted. */
export async function* follow(url, token, { after = 0, signal } = {}) {
  let last = String(after);
  for (let attempt = 0; !signal?.aborted; attempt++) {
    try {
      for await (const message of connect(url, token, last, signal)) {
        attempt = 0;
        if (message.event === "end") return;
        if (message.event === "error") throw new Refused(JSON.parse(message.data));
        last = message.id;
        yield JSON.parse(message.data);
      }
    } catch (error) {
      if (error instanceof Refused || signal?.aborted) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSES_MS[Math.min(attempt, PAUSES_MS.length - 1)]));
  }
}

/** The daemon refuses the request, so a retry is useless: `problem` says why. */
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

async function* connect(url, token, last, signal) {
  const silence = new AbortController();
  const stop = () => silence.abort();
  signal?.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const response = await fetch(url, {
      headers: { Authorization: `Bearer ${token}`, "Last-Event-ID": last },
      cache: "no-store",
      signal: silence.signal,
    });
    if (response.status >= 400 && response.status < 500) throw new Refused(await response.json());
    if (!response.ok) throw new Error(`status ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      const blocks = (text + value).split("\n\n");
      text = blocks.pop(); // not complete yet
      for (const block of blocks) {
        const message = parse(block);
        if (message.data !== undefined) yield message;
      }
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
    silence.abort();
  }
}

function parse(block) {
  const message = { event: "message" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) message[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return message;
}
