"""A process of its own that loads a library and prints its settings: see library_settings.

It needs nothing else of this package, and so no path to it.
"""

import ctypes
import json
import os
import sys
import traceback


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


def loaded(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.hak_ctl.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    ]
    return library


def main() -> None:
    """Ends at once: else the library would write at exit, to files of the process that is asked
    about."""
    status = 1
    try:
        print(json.dumps(answer(loaded(sys.argv[1]))), flush=True)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
