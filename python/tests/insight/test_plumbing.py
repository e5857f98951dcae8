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
        *("__zend_malloc", "__zend_calloc", "__zend_realloc", "_femalloc", "_safe_malloc"),
        *("_safe_realloc", "_safe_femalloc", "_ferealloc2", "_emalloc_3072", "_erealloc2"),
        *("__zend_strdup", "zend_strndup", "_zend_mm_alloc", "zend_mm_alloc_huge"),
        *("smart_str_erealloc", "_smart_string_alloc", "tracked_malloc"),
        "<hakmem::Hakmem as core::alloc::global::GlobalAlloc>::realloc",
        "<mycrate::Arena<T> as core::alloc::Allocator>::allocate",
        *("__rustc::__rust_realloc", "__rustc::__rdl_alloc", "__rust_alloc_zeroed"),
        "<&mut alloc::vec::Vec<u8> as std::io::Write>::write_all",
        "<&alloc::string::String as core::fmt::Display>::fmt",
        "<T as alloc::string::ToString>::to_string",
        "<T as alloc::slice::hack::ConvertVec>::to_vec",
        "<T as core::convert::Into<U>>::into",
        "<[alloc::string::String] as alloc::slice::Join<&str>>::join",
        "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
        "<mycrate::Item as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
        *("<[mycrate::Item]>::to_vec", "<[alloc::string::String]>::join::<&str>"),
        "<<alloc::raw_vec::RawVec<u8>>::grow::{closure#0} as core::ops::FnOnce<()>>::call_once",
        "<[u8] as alloc::borrow::ToOwned>::to_owned",
        "<str as alloc::string::SpecToString>::spec_to_string",
        *("<[T]>::to_vec", "<str>::replace"),
        "<alloc::vec::Vec<mycrate::Item> as core::clone::Clone>::clone",
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
        *("mycrate::alloc_pool::Pool::take", "<mycrate::alloc_pool::Pool>::take"),
        "<mycrate::Item as core::clone::Clone>::clone",
        "<&mut mycrate::Sink as std::io::Write>::write_all",
        "<alloc::vec::Vec<u8> as mycrate::Pool>::take",
        "<T as mycrate::alloc::Pooled>::take",
        "<[u8] as mycrate::Pool<[u8]>>::take",
        "<<mycrate::Pool>::take::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
        "<u32 as core::convert::From<mycrate::Item>>::from",
        "<mycrate::alloc::Arena as mycrate::core::alloc::Grow>::grow",
        *("__rustc_tool", "<lambda(int)>::operator()", "zend_string_tolower_ex"),
        *("zend_hash_real_init", "safe_malloc_users", "php_stream_context_alloc"),
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
