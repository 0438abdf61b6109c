// Requests to the server this page came from.

const KEY = "zoo-api-key";
const STREAM = ", or send it to /api/translate/stream";  // advice for programs

export class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

// The languages of a request, where the checkpoint has several to choose from.
export function languages(model, {source, target}) {
  const chosen = {};
  if (model?.source_languages.length > 1) chosen.source_lang = source;
  if (model?.target_languages.length > 1) chosen.target_lang = target;
  return chosen;
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

// JSON has no half of a pair of surrogates, which a page may paste.
function wellFormed(key, value) {
  return typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\uFFFD") : value;
}

export async function request(path, body, signal) {
  const headers = {"Content-Type": "application/json"};
  const key = sessionStorage.getItem(KEY);
  // As UTF-8, which the server reads: a header of `fetch` has a character for each byte.
  if (key) headers["X-API-Key"] = String.fromCharCode(...new TextEncoder().encode(key));
  const options = body === undefined ? {headers, signal}
                                     : {method: "POST", headers, signal, body: JSON.stringify(body, wellFormed)};
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer.", "unreachable");
  }
  const answer = await response.json().catch(() => ({error: `status ${response.status}`, code: ""}));
  if (!response.ok) throw new Refused(answer.error?.replace(STREAM, ""), answer.code);
  return answer;
}
