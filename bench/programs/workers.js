// Worker threads that build objects, pack and unpack them, and fill buffers outside the heap.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

function work(seed, rounds) {
    const hash = crypto.createHash('sha256');
    let x = seed;
    let objects;
    for (let round = 0; round < rounds; round++) {
        objects = [];
        for (let i = 0; i < 20000; i++) {
            x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff;
            objects.push({ id: i, name: `n${x % 5003}`, list: [x % 7, x % 11, x % 13] });
        }
        const text = JSON.stringify(objects);
        for (let at = 0; at + 8192 <= text.length; at += 8192) {
            const packed = zlib.deflateSync(text.slice(at, at + 8192), { level: 1 });
            hash.update(zlib.inflateSync(packed));
        }
        const chunks = [];
        for (let i = 0; i < 4000; i++) chunks.push(Buffer.alloc(4096 + i * 3 % 9000, i & 255));
        hash.update(Buffer.concat(chunks));
    }
    return `${seed} ${objects.length} ${hash.digest('hex')}`;
}

if (isMainThread) {
    const [threads, rounds] = process.argv.slice(2).map(Number);
    const jobs = Array.from({ length: threads }, (_, index) => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: { seed: index + 1, rounds } });
        worker.on('message', resolve);
        worker.on('error', reject);
    }));
    Promise.all(jobs).then((lines) => console.log(lines.join('\n')));
} else {
    parentPort.postMessage(work(workerData.seed, workerData.rounds));
}
