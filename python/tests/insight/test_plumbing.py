"""Which function a call stack is named after."""

import pytest

from hakmem.insight.plumbing import is_plumbing, telling
from hakmem.insight.symbols import Frame


@pytest.mark.parametrize(
    "name",
    [
        *("xmalloc", "xcalloc", "xstrndup", "__strdup", "operator new", "operator new[]"),
        *("std::vector<int>::reserve", "__gnu_cxx::new_allocator<char>::allocate"),
        *("alloc::raw_vec::RawVec<T,A>::grow", "<alloc::string::String as core::clone::Clone>::x"),
        *("__rust_alloc", "g_malloc0", "g_slice_alloc", "g_strdup_printf"),
        *("PyMem_RawMalloc", "_PyObject_GC_NewVar", "_PyObject_New", "PyType_GenericAlloc"),
        *("zmalloc_usable", "ztrymalloc_usable_internal", "zcalloc_num", "zstrdup", "RM_Alloc"),
        *(
            "RM_TryCalloc",
            "_sdsnewlen",
            "sdsnew",
            "sdstrynewlen",
            "sdsMakeRoomForNonGreedy",
            "sdscatlen",
        ),
        *("luaM_realloc_", "palloc0", "AllocSetAlloc", "MemoryContextAllocZero", "ngx_pcalloc"),
        *("sqlite3MemMalloc", "sqlite3_malloc64", "sqlite3DbMallocRaw", "Perl_safesyscalloc"),
        *("ruby_xmalloc2", "objspace_xmalloc0", "_emalloc", "_safe_emalloc", "_estrdup"),
        *("Tcl_Alloc", "CRYPTO_zalloc", "uv__malloc", "apr_palloc", "ggc_internal_alloc"),
    ],
)
def test_wrappers_of_malloc_name_nothing(name: str) -> None:
    assert is_plumbing(Frame(name, "program"))


@pytest.mark.parametrize(
    "name",
    [
        *("dictAddRaw", "createObject", "remember_visit", "copy_of_page", "mystd::fill"),
        *("zmalloc_user", "xmalloc_test", "PyDict_SetItem", "palloc_table", "sdssplitargs"),
        *("RM_CreateCommand", "my_operator new_thing", "Perl_sv_setsv", "reallocate_all"),
        *("_emailing", "g_hash_table_insert", "strdup_all", "sqlite3_prepare"),
    ],
)
def test_a_program_s_own_functions_do(name: str) -> None:
    assert not is_plumbing(Frame(name, "program"))


@pytest.mark.parametrize("module", ["libc.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2"])
def test_all_that_the_c_libraries_allocate_is_their_callers(module: str) -> None:
    assert is_plumbing(Frame("fopen", module))


def names(*stack: str) -> list[str]:
    return [frame.function for frame in telling([Frame(name, "program") for name in stack])]


def test_a_stack_is_named_after_what_tells() -> None:
    assert names("zmalloc_usable", "RM_Alloc", "remember", "visit") == ["remember", "visit"]
    assert names("grow", "xmalloc", "grow", "grow", "main") == ["grow", "main"]
    assert names("PyUnicode_New", "join", "PyUnicode_New") == [
        "PyUnicode_New",
        "join",
        "PyUnicode_New",
    ]


def test_wrappers_alone_are_all_there_is() -> None:
    assert names("zmalloc", "RM_Alloc") == ["zmalloc", "RM_Alloc"]
