// The same game in JavaScript, without packages: `node server.mjs 9000`. The protocol is in docs/environments-http.md.
import { createServer } from "node:http";

const DESCRIPTION = { protocol: "warren-env/1", name: "guess-http", splits: { train: null } };
const episodes = new Map();

// Everything follows from the seed and the actions, so a lost episode can be played anew.
function begin({ seed, config }) {
  return { seed, number: seed % 10, most: config.guesses ?? 4, answers: [], first: show(seed, 0, "?") };
}

function show(seed, turn, content) {
  const demonstration = String((Math.floor(seed / 10) + 7 * turn) % 10);
  return { messages: [{ role: "user", content }], demonstration };
}

// A turn that comes twice is answered as before.
function step(episode, { turn, action }) {
  if (turn === episode.answers.length + 1) episode.answers.push(judge(episode, action.trim(), turn));
  return episode.answers[turn - 1];
}

function judge({ seed, number, most }, word, turn) {
  const isDigit = /^[0-9]$/.test(word);
  const isRight = isDigit && Number(word) === number;
  if (!isDigit || isRight || turn === most) {
    return { reward: isRight ? 1 : 0, done: true, metrics: { unreadable: isDigit ? 0 : 1 } };
  }
  return show(seed, turn, Number(word) < number ? ">" : "<");
}

function answer(method, [what, key, steps], body) {
  if (method === "GET" && what === undefined) return [200, DESCRIPTION];
  if (method === "PUT" && what === "episodes") {
    if (!episodes.has(key)) episodes.set(key, begin(body));
    return [200, episodes.get(key).first];
  }
  if (method === "POST" && steps === "steps" && episodes.has(key)) return [200, step(episodes.get(key), body)];
  if (method === "DELETE" && what === "episodes") return [200, { deleted: episodes.delete(key) }];
  return [404, { error: "there is no such episode" }];
}

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : null;
    const [status, said] = answer(request.method, request.url.split("/").filter(Boolean), body);
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(said));
  });
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
