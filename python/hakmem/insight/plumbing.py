"""Functions that stand between a program's own code and malloc.

Nobody learns from a call stack that memory came from `zmalloc`: the name shown for a stack is that
of the innermost function which is none of these. The whole stack stays to be seen.
"""

import re
from collections.abc import Sequence

from hakmem.insight.symbols import Frame

RUST_LIBRARY = "(alloc|core|std|hashbrown)"
# By whole names. Not here: functions that make an object or a container of the program's own kind.
WRAPPERS = (
    # What programs call their malloc that checks, and their strdup.
    r"x?(m|c|z|re|aligned_)alloc|(x|_*)strn?dup|xmemdup",
    # C++: operator new, and the standard library's containers as far as they are templates.
    r"operator new.*|(void\* )?(std|__gnu_cxx)::.*",
    # Rust: the global allocator, Box, Vec and String.
    rf"{RUST_LIBRARY}::.*|(__rustc::)?(_*rust_.*|__r(g|dl)_.*)",
    r"<.+ as core::alloc::(global::GlobalAlloc|Allocator)>::.*",
    # The library's traits for its own types, whatever these are of; what a program implements for
    # them is its own, as is what it implements of the library.
    rf"<(&(mut )?)*{RUST_LIBRARY}::(?!.* as (?!{RUST_LIBRARY}::)).*",
    # What names no crate but the library: its traits for T, [u8], str.
    rf"<(?!lambda)(?!.*(?<![\w:])(?!{RUST_LIBRARY}::)[A-Za-z_]\w*::).*>::.*",
    # Slices, of which only the library can have functions, and how it copies them.
    r"<\[(?!.* as ).*\]>::.*|<.+::ConvertVec>::to_vec.*",
    # GLib: g_malloc, g_slice_alloc, g_strdup ... in all variants.
    r"g_(malloc|realloc|strdup|slice|new|memdup).*",
    # CPython: its three families of allocators, and objects as memory.
    r"_?PyMem_.*|_?PyObject_(Malloc|Calloc|Realloc|New|NewVar|GC_.*)|PyType_GenericAlloc"
    r"|_PyType_AllocNoTrack|gc_alloc",
    # Redis: zmalloc counts, RM_ is what modules call, sds are its strings.
    r"z(try)?(m|c|re)alloc(_usable|_num|_usable_internal)?|zstrdup"
    r"|RM_(Try)?(Alloc|Calloc|Realloc|Strdup|PoolAlloc)"
    r"|sds_(m|re)alloc|_?sds(try)?new(len)?|sds(dup|empty|cat\w*|cpy(len)?)|_?sdsMakeRoomFor(NonGreedy)?",
    # Lua: the state's allocator, and how tables and strings ask it.
    r"l_alloc|luaM_.*",
    # PostgreSQL: memory contexts.
    r"palloc0?(_extended)?|repalloc0?(_extended)?|pstrdup|AllocSet(Alloc|Realloc)|MemoryContext(Alloc|Strdup).*",
    # nginx and Apache: pools.
    r"ngx_(alloc|calloc|palloc\w*|pcalloc|pnalloc|create_pool)|apr_p(alloc|calloc|strdup)\w*",
    # SQLite, Perl, Ruby, PHP, Tcl, OpenSSL, libuv.
    r"sqlite3(_|Db)?(Malloc|Realloc|MemMalloc|StrDup|malloc|realloc)\w*|dbMalloc\w*",
    r"Perl_safesys\w*|Perl_savepvn?|ruby_x\w*alloc\w*|rb_x\w*alloc\w*|objspace_x\w*",
    r"_?(safe_)?f?(em|ec|ere|pem)alloc\w*|_?estrn?dup|Tcl(p|_)(Alloc|Realloc|AttemptAlloc)",
    r"(__zend|_safe)_(m|c|re)alloc|_?_?zend_strn?dup|_?zend_mm_\w+|tracked_(m|re)alloc"
    r"|_?smart_str(ing)?_\w*alloc\w*",
    r"CRYPTO_(m|z|re|clear_re)alloc|CRYPTO_strn?dup|uv__(m|c|re)alloc",
    # GCC: memory of its garbage collector.
    r"ggc_(internal_)?(cleared_)?alloc\w*",
)
WRAPPER = re.compile("|".join(WRAPPERS))
# Of these whatever it is: the C and C++ libraries and the loader allocate for those who call them.
MODULES = re.compile(r"(libstdc\+\+|libc\+\+|libc|ld-linux\S*)\.so")


def telling(frames: Sequence[Frame]) -> list[Frame]:
    """Those to name a stack after, innermost first; all of them if none tells anything.

    A function in several parts, or one that calls itself, is named once.
    """
    found = [frame for frame in frames if not is_plumbing(frame)] or list(frames)
    return [
        frame
        for before, frame in zip([None, *found], found, strict=False)
        if before is None or before.function != frame.function
    ]


def is_plumbing(frame: Frame) -> bool:
    return bool(WRAPPER.fullmatch(frame.function) or MODULES.match(frame.module))
