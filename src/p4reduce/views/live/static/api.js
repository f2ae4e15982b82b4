// What the page asks its server for. The token stands in the page's own address.
const token = new URLSearchParams(location.search).get("token") ?? "";

export class Refused extends Error {}

async function answer(response) {
  const type = response.headers.get("content-type") ?? "";
  const found = type.includes("json") ? await response.json() : { error: await response.text() };
  if (!response.ok || found?.refused) throw new Refused(found.refused ?? found.error ?? response.statusText);
  return found;
}

export async function ask(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== ""));
  return answer(await fetch(`/api/${path}?${words}`, { headers: { "x-live-token": token } }));
}

export async function tell(path, body) {
  const headers = { "x-live-token": token, "content-type": "application/json" };
  return answer(await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

export function listen(onTick, onLost) {
  const stream = new EventSource(`/api/stream?token=${encodeURIComponent(token)}`);
  stream.onmessage = (event) => onTick(JSON.parse(event.data));
  stream.onerror = onLost;
}
