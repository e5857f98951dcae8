//! A program on hakmem: contents, alignments, threads that free each other's blocks.

use hakmem::{usable_size, Hakmem};
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

#[test]
fn blocks_are_hakmems() {
    let word = Box::new(7u64);
    let address: *const u64 = &*word;
    assert!(unsafe { usable_size(address.cast()) } >= 8);
}

#[test]
fn collections_keep_their_content() {
    let mut map = HashMap::new();
    for i in 0..100_000u64 {
        map.insert(i, format!("value {i}"));
    }
    for i in (0..100_000).step_by(3) {
        map.remove(&i);
    }
    assert!((0..100_000).all(|i| map.get(&i).is_some() == (i % 3 != 0)));
    assert_eq!(map[&1], "value 1");
}

#[test]
fn layouts_are_kept() {
    for shift in 0..17 {
        for size in [1, 8, 15, 16, 24, 100, 4097, 70_000, 3 << 20] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                let block = GLOBAL.alloc_zeroed(layout);
                assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
                assert!(std::slice::from_raw_parts(block, size)
                    .iter()
                    .all(|&byte| byte == 0));
                block.write_bytes(0x5a, size);
                let grown = GLOBAL.realloc(block, layout, 2 * size);
                let bytes = std::slice::from_raw_parts(grown, size);
                assert_eq!(grown as usize % layout.align(), 0, "{layout:?}");
                assert!(bytes.iter().all(|&byte| byte == 0x5a));
                GLOBAL.dealloc(
                    grown,
                    Layout::from_size_align(2 * size, 1 << shift).unwrap(),
                );
            }
        }
    }
}

#[test]
fn threads_free_each_others_blocks() {
    let (sender, receiver) = channel::<Vec<u8>>();
    let producers: Vec<_> = (0..4)
        .map(|seed| {
            let sender = sender.clone();
            thread::spawn(move || {
                for i in 0..20_000usize {
                    sender.send(vec![seed; 1 + i % 700]).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut count = 0;
    for bytes in receiver {
        assert!(bytes.iter().all(|&byte| byte == bytes[0]));
        count += 1;
    }
    producers
        .into_iter()
        .for_each(|producer| producer.join().unwrap());
    assert_eq!(count, 80_000);
}
