/* The stream of events, read with fetch: an EventSource sends no Authorization header, and a token
   has no place in an address. */

const KEY = "greenwave-token";
const SILENT_MS = 8000; // the service says something every three seconds
let token = sessionStorage.getItem(KEY);

export class LoginNeeded extends Error {}

/* The service has answered, and says why not. */
export class Refused extends Error {
  constructor(words, answer) {
    super(words);
    this.retryMs = 1000 * Number(answer.headers.get("Retry-After") ?? 0);
  }
}

export async function logIn(username, password) {
  const answer = await fetch("../api/auth/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ username, password }),
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.message || "The gateway does not answer (" + answer.status + ")");
  token = body.accessToken;
  sessionStorage.setItem(KEY, token);
}

export function logOut() {
  token = null;
  sessionStorage.removeItem(KEY);
}

export const isLoggedIn = () => token !== null;

async function ask(address, signal) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(address, { headers, signal, cache: "no-store" });
  if (answer.status === 401) {
    logOut();
    throw new LoginNeeded();
  }
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    if (typeof body.detail === "string") throw new Refused(body.detail, answer);
    throw new Error("HTTP " + answer.status);
  }
  return answer;
}

export async function askJson(address) {
  return (await ask(address, AbortSignal.timeout(5000))).json();
}

/* Yield each event's data until the service ends the stream, as it does every half minute. */
export async function* events(address, stopped) {
  const watchdog = new AbortController();
  let timer = setTimeout(() => watchdog.abort(), SILENT_MS);
  try {
    const answer = await ask(address, AbortSignal.any([stopped, watchdog.signal]));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let unread = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => watchdog.abort(), SILENT_MS);
      const blocks = (unread + value).split("\n\n");
      unread = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data: "));
        if (data.length) yield JSON.parse(data.map((line) => line.slice(6)).join("\n"));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
