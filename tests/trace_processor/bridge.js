// SPDX-License-Identifier: Apache-2.0
// Runs the trace processor of the Perfetto UI (a web worker) under node.
// usage: node bridge.js FOLDER    with engine_bundle.js and trace_processor.wasm
// stdin and stdout carry messages of the processor's RPC: 4 bytes of length, then the message.
"use strict";
const fs = require("fs");
const path = require("path");

const folder = process.argv[2];
const quiet = { log() {}, warn() {}, error() {} };

class LocalFile {
  open(method, name) {
    this.name = name;
  }
  send() {
    const bytes = fs.readFileSync(path.join(folder, path.basename(this.name)));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
}

// The bundle asks whether 64-bit memory is there by a module that begins with a memory section;
// the answer is no, so that every version of node runs the same build.
const { Module } = WebAssembly;
WebAssembly.Module = function (bytes) {
  if (bytes[8] === 5) throw new Error("32-bit memory only");
  return new Module(bytes);
};

function read(size) {
  const bytes = new Uint8Array(size);
  for (let have = 0; have < size; ) {
    const got = fs.readSync(0, bytes, have, size - have, null);
    if (got === 0) process.exit(0);
    have += got;
  }
  return bytes;
}

function write(bytes) {
  for (let sent = 0; sent < bytes.length; ) sent += fs.writeSync(1, bytes, sent);
}

const port = {
  postMessage(bytes) {
    const head = Buffer.alloc(4);
    head.writeUInt32LE(bytes.length);
    write(head);
    write(bytes);
  },
};

const self = { location: { href: "http://localhost/engine_bundle.js" } };
const names = ["self", "process", "WorkerGlobalScope", "XMLHttpRequest", "console"];
const code = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
new Function(...names, code)(self, undefined, class {}, LocalFile, quiet);

// The module is ready once the promises made while loading have run.
setImmediate(() => {
  self.onmessage({ data: port });
  for (;;) {
    const size = Buffer.from(read(4)).readUInt32LE(0);
    port.onmessage({ data: read(size) });
  }
});
