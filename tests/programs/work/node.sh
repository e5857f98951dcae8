# Four workers over shared memory and messages; buffers, JSON, compression and regular expressions.
set -eu
cat >main.js <<'END'
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

function work(seed) {
    const objects = [];
    let x = seed;
    for (let i = 0; i < 40000; i++) {
        x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff;
        objects.push({ id: i, name: `n${x % 5003}`, list: [x % 7, x % 11, x % 13] });
    }
    objects.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id));
    const text = JSON.stringify(objects);
    const packed = zlib.deflateSync(text);
    const back = JSON.parse(zlib.inflateSync(packed).toString());
    const words = new Map();
    for (const [, word] of text.matchAll(/"name":"(n\d+)"/g)) {
        words.set(word, (words.get(word) || 0) + 1);
    }
    const chunks = [];
    for (let i = 0; i < 3000; i++) chunks.push(Buffer.alloc(i * 3 % 9000, i & 255));
    const hash = crypto.createHash('sha256').update(Buffer.concat(chunks)).update(text);
    return `${seed} ${back.length} ${words.size} ${hash.digest('hex')}`;
}

if (isMainThread) {
    const shared = new Int32Array(new SharedArrayBuffer(16));
    const jobs = [1, 2, 3, 4].map((seed) => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: { seed, shared } });
        worker.on('message', resolve);
        worker.on('error', reject);
    }));
    Promise.all(jobs).then((lines) => {
        console.log(lines.join('\n'), shared[0]);
        zlib.gzip(Buffer.alloc(1 << 22, 'abc'), (_, data) => console.log(data.length));
        fs.writeFileSync('mapped/node', fs.readFileSync('/proc/self/maps'));
    });
} else {
    Atomics.add(workerData.shared, 0, workerData.seed);
    parentPort.postMessage(work(workerData.seed));
}
END
node main.js
