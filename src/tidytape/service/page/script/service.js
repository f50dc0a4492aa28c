// --- asking the service; the key lives in here, and leaves only in a header ---

class Refusal extends Error {
  constructor(code, message, { status = 0, retryAfter = null, requestId = null } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter, requestId });
  }
}

const service = (() => {
  let key = null;

  async function sent(path, parameters, signal) {
    try {
      return await fetch(addressOf(path, parameters), {
        headers: { [FACTS.keyHeader]: key },
        cache: "no-store", // data that is behind a key does not stay on this machine
        credentials: "omit",
        redirect: "error",
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(
        "NO_ANSWER",
        "the service cannot be reached, or the key is not of characters a header may have",
      );
    }
  }

  async function read(response) {
    try {
      return await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal("NO_ANSWER", "the answer broke off, or is no JSON", { status: response.status });
    }
  }

  async function opened(path, parameters, signal) {
    const response = await sent(path, parameters, signal);
    const requestId = response.headers.get("X-Request-Id");
    quota.note(response.headers);
    if (response.ok) return { response, requestId };
    // A proxy in between may answer in a shape of its own.
    const {
      error = "NO_ANSWER",
      message = `status ${response.status}`,
      retry_after: retryAfter = null,
    } = await read(response);
    throw new Refusal(error, message, { status: response.status, retryAfter, requestId });
  }

  return {
    use(secret) {
      key = secret;
    },
    forget() {
      key = null;
    },
    // Return the body and the id of the request; throw a Refusal with what the service said.
    async ask(path, parameters = "", signal = undefined) {
      const { response, requestId } = await opened(path, parameters, signal);
      return { body: await read(response), requestId };
    },
    // Return a body that is read while it grows, and the id of the request.
    async open(path, parameters, signal) {
      const { response, requestId } = await opened(path, parameters, signal);
      return { body: response.body, requestId };
    },
  };
})();

function showRefusal(host, refusal) {
  const parts = [html("strong", {}, refusal.code), " ", refusal.message];
  if (refusal.requestId) parts.push(" ", html("span", { class: "quiet" }, `request ${refusal.requestId}`));
  const note = html("p", { class: "note bad" }, ...parts);
  host.replaceChildren(note);
  if (refusal.retryAfter) countDown(note, refusal.retryAfter);
}

// Work whose refusal is shown in a place of its own; what was stopped says nothing.
async function guarded(host, work) {
  try {
    host.replaceChildren();
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    showRefusal(host, error);
  }
}

// Say when it can be asked again, for as long as the note stands.
function countDown(note, seconds) {
  const left = html("span", { class: "again" });
  const end = performance.now() + seconds * 1000;
  note.append(" ", left);
  const tick = () => {
    const rest = Math.ceil((end - performance.now()) / 1000);
    left.textContent = rest > 0 ? `Again in ${rest} s.` : "It can be asked again.";
    if (rest > 0 && note.isConnected) setTimeout(tick, 250);
  };
  tick();
}
