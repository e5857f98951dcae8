"""Array arithmetic with many temporaries of all sizes, sorting, FFT and text tables."""

import hashlib
import shutil

import numpy as np

rng = np.random.default_rng(11)
digest = hashlib.sha256()
for size in (10, 100, 1000, 10_000, 100_000, 1_000_000):
    for _ in range(20):
        a = rng.integers(0, 1 << 40, size)
        b = np.sort(a)[::-1]
        c = (a * 3 + b) % 1_000_003
        digest.update(np.concatenate([c, np.unique(c % 97)]).tobytes())
grid = np.add.outer(np.arange(700), np.arange(900)) % 251
digest.update(np.ascontiguousarray(grid.T).tobytes())
spectrum = np.round(np.abs(np.fft.fft(grid[:, :512], axis=1)), 3)
digest.update(spectrum.tobytes())
words = np.array([f"word{i * 7919 % 5003}" for i in range(60_000)], dtype=object)
print(digest.hexdigest(), len(np.unique(words)))
shutil.copyfile("/proc/self/maps", "mapped/numpy")
