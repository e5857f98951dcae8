# Compiles a program of traits, generics and threads with optimisation; compares it and its output.
set -eu
cat >main.rs <<'END'
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::{Debug, Display};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

trait Shape: Debug { fn area(&self) -> f64; fn name(&self) -> String; }
macro_rules! shapes { ($($name:ident => $factor:expr),*) => { $(
    #[derive(Debug, Clone, PartialEq, PartialOrd)] struct $name { side: f64, parts: Vec<String> }
    impl Shape for $name {
        fn area(&self) -> f64 { self.side * self.side * $factor + self.parts.len() as f64 }
        fn name(&self) -> String { format!("{}-{:.2}", stringify!($name), self.side) }
    } )* } }
shapes!(Square => 1.0, Circle => 3.14159, Triangle => 0.433, Hexagon => 2.598, Octagon => 4.828);

fn group<K: Ord + Clone, V: Clone, F: Fn(&V) -> K>(items: &[V], key: F) -> BTreeMap<K, Vec<V>> {
    let mut map: BTreeMap<K, Vec<V>> = BTreeMap::new();
    for item in items { map.entry(key(item)).or_default().push(item.clone()); }
    map
}
fn show<T: Display, I: IntoIterator<Item = T>>(items: I) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(",")
}
fn main() {
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Mutex::new(HashMap::new()));
    let threads: Vec<_> = (0..4u64).map(|n| {
        let (sender, shared) = (sender.clone(), Arc::clone(&shared));
        thread::spawn(move || {
            let mut queue: VecDeque<Box<dyn Shape + Send>> = VecDeque::new();
            for i in 0..20000u64 {
                let side = (i * (n + 3) % 101) as f64;
                let parts = vec![i.to_string(); (i % 5) as usize];
                queue.push_back(match i % 5 {
                    0 => Box::new(Square { side, parts }), 1 => Box::new(Circle { side, parts }),
                    2 => Box::new(Triangle { side, parts }), 3 => Box::new(Hexagon { side, parts }),
                    _ => Box::new(Octagon { side, parts }),
                });
                if queue.len() > 500 {
                    let shape = queue.pop_front().unwrap();
                    *shared.lock().unwrap().entry(shape.name()).or_insert(0u64) += shape.area() as u64;
                }
            }
            sender.send(queue.iter().map(|s| s.area()).sum::<f64>() as u64).unwrap();
        })
    }).collect();
    for thread in threads { thread.join().unwrap(); }
    drop(sender);
    let sums: BTreeSet<u64> = receiver.iter().collect();
    let sorted: BTreeMap<_, _> = shared.lock().unwrap().clone().into_iter().collect();
    let groups = group(&(0..5000).map(|i| format!("k{}", i * 7919 % 997)).collect::<Vec<_>>(), |s| s.len());
    println!("{} {} {}", show(&sums), sorted.len(), sorted.values().sum::<u64>());
    println!("{}", show(groups.values().map(Vec::len)));
    std::fs::write("mapped/rust", std::fs::read("/proc/self/maps").unwrap()).unwrap();
}
END
rustc --edition 2021 -O -C codegen-units=4 --emit asm=out/main.s,link=out/main main.rs
./out/main
cat >wrong.rs <<'END'
fn longest(a: &str, b: &str) -> &str { if a.len() > b.len() { a } else { b } }
fn main() { let s: Vec<u8> = vec!["a"]; let t = s; println!("{:?} {}", s, longest("a", t)); }
END
! rustc --edition 2021 wrong.rs 2>&1
