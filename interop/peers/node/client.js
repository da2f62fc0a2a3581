// A load generator on grpc-js: unary calls to an xds:/// target until stdin closes.
//
// It prints one line per finished call: "ok BACKEND" or "err CODE MESSAGE", as its Go and Python twins do.
//
//     GRPC_XDS_BOOTSTRAP=file NODE_PATH=node_modules node client.js TARGET METHOD WORKERS
"use strict";

const grpc = require("@grpc/grpc-js");

require("@grpc/grpc-js-xds").register();

// Longer than any wait the scenarios cause on purpose: a call that takes this long is lost.
const DEADLINE = 15000;
// One worker stays near 300 calls a second, which two cores can serve beside all the rest.
const PAUSE = 3;

const [target, path, workers] = process.argv.slice(2);
const client = new grpc.Client(target, grpc.credentials.createInsecure());
// The echo service has no schema: message bodies pass as they are.
const raw = (bytes) => bytes;

function work() {
  const options = { deadline: Date.now() + DEADLINE };
  client.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), options, (error, reply) => {
    const line = error
      ? `err ${grpc.status[error.code]} ${JSON.stringify(error.details)}`
      : `ok ${reply}`;
    process.stdout.write(`${line}\n`);
    setTimeout(work, PAUSE);
  });
}

for (let worker = 0; worker < Number(workers); worker++) {
  work();
}
process.stdin.resume().on("end", () => process.exit());
