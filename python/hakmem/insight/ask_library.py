"""A process of its own that loads a library and prints its settings: see library_settings.

It needs nothing else of this package, and so no path to it.
"""

import ctypes
import json
import os
import sys


def answer(library: ctypes.CDLL) -> dict[str, object]:
    def text(name: bytes) -> str:
        value = ctypes.c_char_p()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        wrong = library.hak_ctl(name, ctypes.byref(value), ctypes.byref(size), None, 0)
        if wrong != 0 or value.value is None:
            raise OSError(wrong, f"no '{name.decode()}' in this version of the library")
        return value.value.decode()

    def setting(name: str, kind: str) -> int | str | None:
        value = ctypes.c_char_p() if kind == "TEXT" else ctypes.c_size_t()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        asked = f"opt.{name}".encode()
        wrong = library.hak_ctl(asked, ctypes.byref(value), ctypes.byref(size), None, 0)
        if wrong != 0 or value.value is None:
            return None
        return os.fsdecode(value.value) if isinstance(value.value, bytes) else value.value

    rows = [line.split(" ", 2) for line in text(b"opt").splitlines()]
    return {
        "version": text(b"version"),
        "settings": [(name, kind, about, setting(name, kind)) for name, kind, about in rows],
    }


def main() -> None:
    loaded = ctypes.CDLL(sys.argv[1])
    loaded.hak_ctl.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ]
    print(json.dumps(answer(loaded)))


if __name__ == "__main__":
    main()
