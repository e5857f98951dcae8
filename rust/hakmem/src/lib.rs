//! hakmem as the global allocator:
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;
//! # fn main() {}
//! ```
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

/// Every block is aligned to this, whatever is asked for.
const ALIGNMENT: usize = 16;
/// Of blocks smaller than that, only to a power of two that is no larger than the block.
const SMALLEST: usize = 16;

extern "C" {
    fn hak_malloc(size: usize) -> *mut c_void;
    fn hak_calloc(count: usize, size: usize) -> *mut c_void;
    fn hak_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn hak_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn hak_free(block: *mut c_void);
    fn hak_free_sized(block: *mut c_void, size: usize);
    fn hak_usable_size(block: *const c_void) -> usize;
}

/// The allocator. It has no state of its own.
pub struct Hakmem;

fn is_plain(layout: Layout, size: usize) -> bool {
    layout.align() <= ALIGNMENT && (layout.align() <= 8 || size >= SMALLEST)
}

/// How much of a block can be used, at least what was asked for.
///
/// # Safety
/// The block is a live one of this allocator's.
pub unsafe fn usable_size(block: *const u8) -> usize {
    hak_usable_size(block.cast())
}

unsafe impl GlobalAlloc for Hakmem {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout, layout.size()) {
            hak_malloc(layout.size()).cast()
        } else {
            hak_memalign(layout.align(), layout.size()).cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout, layout.size()) {
            return hak_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_plain(layout, layout.size()) {
            hak_free_sized(block.cast(), layout.size());
        } else {
            hak_free(block.cast());
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_plain(layout, layout.size()) && is_plain(layout, size) {
            return hak_realloc(block.cast(), size).cast();
        }
        let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !new.is_null() {
            new.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        new
    }
}
