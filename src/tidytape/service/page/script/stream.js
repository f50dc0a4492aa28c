// --- a stream: lines of JSON that come as the lake grows; it goes on from its token after a cut ---

const PAUSES = [1, 2, 5, 10, 30]; // [s] before the next attempt, and the last of them again and again
const SILENCE = 60_000; // [ms] The service says something every 15 seconds; after so long a connection is dead.
const RESUMED = new Set(["SHUTTING_DOWN", "SLOW_READER"]); // ends after which the same stream goes on

const cutOff = (why) => new Refusal("NO_ANSWER", why);

// Yield each whole line as an object. Half a line at a cut is thrown away.
async function* streamedLines(body, hear) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let half = "";
  while (true) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : cutOff("the connection was cut");
    });
    if (done) throw cutOff("the connection was cut");
    hear();
    const [first, ...others] = value.split("\n");
    const lines = [half + first, ...others];
    half = lines.pop();
    for (const line of lines) yield parsedLine(line);
  }
}

function parsedLine(line) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Refusal("NO_ANSWER", "a line of the stream is no JSON", { status: 200 });
  }
}

// Apply the lines of one connection up to the one with an end, and return that end.
async function connected(parameters, signal, { opened, applied }) {
  const silence = new AbortController();
  let timer = 0;
  const hear = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE);
  };
  try {
    const both = AbortSignal.any([signal, silence.signal]);
    const { body, requestId } = await service.open("v1/stream", parameters, both);
    opened(requestId);
    for await (const line of streamedLines(body, hear)) {
      applied(line);
      if (line.end) return line.end;
    }
  } catch (error) {
    throw silence.signal.aborted && !signal.aborted ? cutOff("the stream fell silent") : error;
  } finally {
    clearTimeout(timer);
    silence.abort(); // nothing more is read of it
  }
}

// Whether a stream that has a token may be asked for again. A place that was just cut may still be counted as held.
function mayResume({ status, code }) {
  return status === 0 || status === 429 || status >= 500 || code === "STREAM_LIMIT_EXCEEDED";
}

// Follow a stream over all its connections until the service ends it, and return that end. `opened(requestId)` is called
// for each connection, `applied(line)` for each line, `waits(why, seconds)` before each pause.
async function followed(query, signal, { opened, applied, waits }) {
  const parameters = streamParameters(query);
  let failures = 0;
  const noted = (line) => {
    applied(line);
    parameters.set("token", line.token);
    if (!line.end) failures = 0;
  };
  while (true) {
    let least = 0;
    let why = "";
    try {
      const end = await connected(parameters, signal, { opened, applied: noted });
      if (!RESUMED.has(end.code)) return end;
      why = `${end.code}, ${end.message}`;
    } catch (error) {
      const isKnown = error instanceof Refusal && parameters.has("token") && mayResume(error);
      if (signal.aborted || !isKnown) throw error;
      why = error.message;
      least = error.retryAfter ?? 0;
    }
    failures += 1;
    const seconds = Math.max(least, PAUSES[Math.min(failures, PAUSES.length) - 1]);
    waits(why, seconds);
    await paused(seconds, signal);
  }
}

function paused(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", stop);
  });
}
