//! Explores what threads of hakmem's own C code can do under the C11 memory model, with the model checker
//! loom. The C sources are compiled for ThreadSanitizer, so each access to memory is a call; hooks.c hands
//! those calls to this program, where atomics are loom's and plain accesses are loom's checked cells.
//!
//! A scenario (model.h) is set up anew for each execution. What it wrote is undone from a log afterwards.

use libloading::{Library, Symbol};
use loom::sync::atomic::{self as model, Ordering};
use loom::thread;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::process::{exit, Command};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const STACK_WORDS: usize = 0x2000;
const FIRST_STACK_WORDS: usize = 0x1000; /* the first thread's, which loom starts */
const TRACE_SHOWN: usize = 120;
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);

enum Atom {
    U8(model::AtomicU8),
    U16(model::AtomicU16),
    U32(model::AtomicU32),
    U64(model::AtomicU64),
}

macro_rules! on_atom {
    ($atom:expr, $a:ident, $t:ident => $result:expr) => {
        match $atom {
            Atom::U8($a) => { type $t = u8; ($result) as u64 }
            Atom::U16($a) => { type $t = u16; ($result) as u64 }
            Atom::U32($a) => { type $t = u32; ($result) as u64 }
            Atom::U64($a) => { type $t = u64; ($result) as u64 }
        }
    };
}

impl Atom {
    fn new(size: usize, value: u64) -> Atom {
        match size {
            1 => Atom::U8(model::AtomicU8::new(value as u8)),
            2 => Atom::U16(model::AtomicU16::new(value as u16)),
            4 => Atom::U32(model::AtomicU32::new(value as u32)),
            _ => Atom::U64(model::AtomicU64::new(value)),
        }
    }
}

/// Plain accesses to the bytes [offset, offset + length) of eight.
struct Plain {
    offset: usize,
    length: usize,
    cell: *const loom::cell::UnsafeCell<()>,
}

#[derive(Clone, Copy)]
struct Step {
    thread: usize,
    what: &'static str,
    at: usize,
    value: u64,
    order: c_int,
    pc: usize,
}

/// Of the execution that is under way.
#[derive(Default)]
struct World {
    exploring: bool,
    atoms: HashMap<usize, (usize, Option<Box<Atom>>)>,
    plain: HashMap<usize, Vec<Plain>>,
    cells: Vec<loom::cell::UnsafeCell<()>>,
    cells_used: usize,
    ignored: Vec<(usize, usize)>,
    /// How many of them are the module's, not the scenario's.
    always_ignored: usize,
    watched: Vec<(usize, usize)>,
    stacks: Vec<(usize, usize)>,
    undo: HashMap<usize, u64>,
    sleepers: Vec<(usize, thread::Thread)>,
    ids: Vec<thread::ThreadId>,
    trace: Vec<Step>,
}

thread_local!(static WORLD: RefCell<World> = RefCell::new(World::default()));

fn world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|w| f(&mut w.borrow_mut()))
}

fn within(ranges: &[(usize, usize)], at: usize) -> bool {
    ranges.iter().any(|r| at >= r.0 && at < r.1)
}

fn order(number: c_int) -> Ordering {
    match number {
        0 => Ordering::Relaxed,
        1 | 2 => Ordering::Acquire,
        3 => Ordering::Release,
        4 => Ordering::AcqRel,
        _ => Ordering::SeqCst,
    }
}

unsafe fn peek(at: usize, size: usize) -> u64 {
    match size {
        1 => *(at as *const u8) as u64,
        2 => *(at as *const u16) as u64,
        4 => *(at as *const u32) as u64,
        _ => *(at as *const u64),
    }
}

unsafe fn poke(at: usize, size: usize, value: u64) {
    match size {
        1 => *(at as *mut u8) = value as u8,
        2 => *(at as *mut u16) = value as u16,
        4 => *(at as *mut u32) = value as u32,
        _ => *(at as *mut u64) = value,
    }
}

impl World {
    fn keep_for_undo(&mut self, at: usize, bytes: usize) {
        for granule in at / 8..(at + bytes + 7) / 8 {
            self.undo.entry(granule).or_insert_with(|| unsafe { *((granule * 8) as *const u64) });
        }
    }

    /// Nothing that scenarios explore.
    fn is_private(&self, at: usize) -> bool {
        within(&self.stacks, at) || (within(&self.ignored, at) && !within(&self.watched, at))
    }

    /// The atomic at an address; None: it is plain memory for now.
    fn atom(&mut self, at: usize, size: usize) -> Option<*const Atom> {
        if self.is_private(at) {
            return None;
        }
        if !self.exploring {
            self.atoms.entry(at).or_insert((size, None));
            self.keep_for_undo(at, size);
            return None;
        }
        match self.atoms.get(&at) {
            Some((_, Some(atom))) => Some(&**atom),
            _ => None,
        }
    }

    fn note(&mut self, what: &'static str, at: usize, value: u64, order: c_int, pc: usize) {
        if self.exploring {
            let thread = self.own_index();
            self.trace.push(Step { thread, what, at, value, order, pc });
        }
    }

    fn own_index(&self) -> usize {
        let own = thread::current().id();
        self.ids.iter().position(|id| *id == own).unwrap_or(0)
    }

    /// The cells that plain accesses to part of eight bytes go to: all that overlap, and one that is just it.
    fn cells_of(&mut self, granule: usize, offset: usize, length: usize) -> Vec<*const loom::cell::UnsafeCell<()>> {
        let entries = self.plain.entry(granule).or_default();
        if !entries.iter().any(|e| e.offset == offset && e.length == length) {
            assert!(self.cells_used < self.cells.len(), "the scenario needs more cells");
            let cell = &self.cells[self.cells_used] as *const _;
            self.cells_used += 1;
            entries.push(Plain { offset, length, cell });
        }
        entries
            .iter()
            .filter(|e| e.offset < offset + length && offset < e.offset + e.length)
            .map(|e| e.cell)
            .collect()
    }

    fn begin_exploring(&mut self, cells: usize) {
        for (at, (size, atom)) in self.atoms.iter_mut() {
            *atom = Some(Box::new(Atom::new(*size, unsafe { peek(*at, *size) })));
        }
        self.cells = (0..cells).map(|_| loom::cell::UnsafeCell::new(())).collect();
        self.exploring = true;
    }

    fn end(&mut self) {
        for (granule, value) in self.undo.drain() {
            unsafe { *((granule * 8) as *mut u64) = value };
        }
        let ignored = self.ignored[..self.always_ignored].to_vec();
        *self = World { always_ignored: self.always_ignored, ignored, ..World::default() };
    }
}

fn must_be_known(at: usize, size: usize) {
    if world(|w| w.exploring && !w.is_private(at)) {
        panic!("the atomic of {} bytes at {:#x} was not touched by the scenario's setup", size, at);
    }
}

// ---- what hooks.c calls ----

unsafe extern "C" fn hook_load(at: usize, size: usize, o: c_int, pc: usize) -> u64 {
    match world(|w| w.atom(at, size)) {
        Some(atom) => {
            let value = on_atom!(&*atom, a, T => a.load(order(o)) as T);
            let value = if size == 8 { value } else { value & ((1 << (size * 8)) - 1) };
            world(|w| w.note("load", at, value, o, pc));
            value
        }
        None => {
            must_be_known(at, size);
            peek(at, size)
        }
    }
}

unsafe extern "C" fn hook_store(at: usize, size: usize, value: u64, o: c_int, pc: usize) {
    match world(|w| w.atom(at, size)) {
        Some(atom) => {
            world(|w| w.note("store", at, value, o, pc));
            on_atom!(&*atom, a, T => { a.store(value as T, order(o)); 0 });
        }
        None => {
            must_be_known(at, size);
            poke(at, size, value)
        }
    }
}

fn combined(op: c_int, old: u64, value: u64) -> u64 {
    match op {
        0 => value,
        1 => old.wrapping_add(value),
        2 => old.wrapping_sub(value),
        3 => old & value,
        4 => old | value,
        _ => old ^ value,
    }
}

unsafe extern "C" fn hook_rmw(at: usize, size: usize, op: c_int, value: u64, o: c_int, pc: usize) -> u64 {
    match world(|w| w.atom(at, size)) {
        Some(atom) => {
            let old = on_atom!(&*atom, a, T => match op {
                0 => a.swap(value as T, order(o)),
                1 => a.fetch_add(value as T, order(o)),
                2 => a.fetch_sub(value as T, order(o)),
                3 => a.fetch_and(value as T, order(o)),
                4 => a.fetch_or(value as T, order(o)),
                _ => a.fetch_xor(value as T, order(o)),
            });
            world(|w| w.note("rmw", at, combined(op, old, value), o, pc));
            old
        }
        None => {
            must_be_known(at, size);
            let old = peek(at, size);
            poke(at, size, combined(op, old, value));
            old
        }
    }
}

unsafe extern "C" fn hook_cas(
    at: usize, size: usize, expected: *mut c_void, value: u64, success: c_int, failure: c_int, pc: usize,
) -> c_int {
    let wanted = peek(expected as usize, size);
    let found = match world(|w| w.atom(at, size)) {
        Some(atom) => on_atom!(&*atom, a, T =>
            match a.compare_exchange(wanted as T, value as T, order(success), order(failure)) {
                Ok(old) => old,
                Err(old) => old,
            }),
        None => {
            must_be_known(at, size);
            let old = peek(at, size);
            if old == wanted {
                poke(at, size, value);
            }
            old
        }
    };
    world(|w| w.note(if found == wanted { "cas" } else { "cas failed" }, at,
                     if found == wanted { value } else { found }, success, pc));
    if found != wanted {
        poke(expected as usize, size, found);
    }
    (found == wanted) as c_int
}

unsafe extern "C" fn hook_fence(o: c_int, pc: usize) {
    if world(|w| w.exploring) && o != 0 {
        world(|w| w.note("fence", 0, 0, o, pc));
        model::fence(order(o));
    }
}

unsafe fn plain(at: usize, bytes: usize, is_write: bool, pc: usize) {
    if within(&world(|w| w.stacks.clone()), at) {
        return;
    }
    if is_write {
        world(|w| w.keep_for_undo(at, bytes));
    }
    if !world(|w| w.exploring && !w.is_private(at)) {
        return;
    }
    world(|w| w.note(if is_write { "write" } else { "read" }, at, bytes as u64, 0, pc));
    let mut from = at;
    while from < at + bytes {
        let length = (8 - from % 8).min(at + bytes - from);
        for cell in world(|w| w.cells_of(from / 8, from % 8, length)) {
            if is_write {
                (*cell).with_mut(|_| ());
            } else {
                (*cell).with(|_| ());
            }
        }
        from += length;
    }
}

unsafe extern "C" fn hook_read(at: usize, bytes: usize, pc: usize) {
    plain(at, bytes, false, pc);
}

unsafe extern "C" fn hook_write(at: usize, bytes: usize, pc: usize) {
    plain(at, bytes, true, pc);
}

unsafe extern "C" fn hook_yield() {
    if world(|w| w.exploring) {
        thread::yield_now();
    }
}

unsafe extern "C" fn hook_self() -> c_int {
    if world(|w| w.exploring) { world(|w| w.own_index()) as c_int } else { 0 }
}

/// The kernel looks at the newest value, and no wake comes between the look and the sleep.
unsafe extern "C" fn hook_wait(at: usize, value: u32) {
    let atom = world(|w| w.atom(at, 4)).expect("a futex is an atomic");
    let found = on_atom!(&*atom, a, T => a.fetch_add(0 as T, Ordering::Relaxed));
    if found == value as u64 {
        world(|w| w.sleepers.push((at, thread::current())));
        thread::park();
    }
}

unsafe extern "C" fn hook_wake(at: usize) {
    let sleeper = world(|w| {
        let i = w.sleepers.iter().position(|s| s.0 == at)?;
        Some(w.sleepers.remove(i).1)
    });
    if let Some(s) = sleeper {
        s.unpark();
    }
}

unsafe extern "C" fn hook_ignore(at: usize, bytes: usize) {
    world(|w| w.ignored.push((at, at + bytes)));
}

unsafe extern "C" fn hook_watch(at: usize, bytes: usize) {
    world(|w| w.watched.push((at, at + bytes)));
}

unsafe extern "C" fn hook_fail(text: *const c_char) -> ! {
    panic!("{}", CStr::from_ptr(text).to_string_lossy());
}

/// In the order of struct model_hooks.
#[repr(C)]
struct Hooks {
    load: unsafe extern "C" fn(usize, usize, c_int, usize) -> u64,
    store: unsafe extern "C" fn(usize, usize, u64, c_int, usize),
    rmw: unsafe extern "C" fn(usize, usize, c_int, u64, c_int, usize) -> u64,
    cas: unsafe extern "C" fn(usize, usize, *mut c_void, u64, c_int, c_int, usize) -> c_int,
    fence: unsafe extern "C" fn(c_int, usize),
    read: unsafe extern "C" fn(usize, usize, usize),
    write: unsafe extern "C" fn(usize, usize, usize),
    yield_: unsafe extern "C" fn(),
    own: unsafe extern "C" fn() -> c_int,
    wait: unsafe extern "C" fn(usize, u32),
    wake: unsafe extern "C" fn(usize),
    ignore: unsafe extern "C" fn(usize, usize),
    watch: unsafe extern "C" fn(usize, usize),
    fail: unsafe extern "C" fn(*const c_char) -> !,
}

static HOOKS: Hooks = Hooks {
    load: hook_load,
    store: hook_store,
    rmw: hook_rmw,
    cas: hook_cas,
    fence: hook_fence,
    read: hook_read,
    write: hook_write,
    yield_: hook_yield,
    own: hook_self,
    wait: hook_wait,
    wake: hook_wake,
    ignore: hook_ignore,
    watch: hook_watch,
    fail: hook_fail,
};

// ---- scenarios ----

/// struct model_scenario.
#[repr(C)]
struct Scenario {
    name: *const c_char,
    threads: c_int,
    preemptions: c_int,
    cells: c_int,
    setup: unsafe extern "C" fn(),
    thread: unsafe extern "C" fn(c_int),
    check: unsafe extern "C" fn(),
}

/// Constant data of a module that stays.
unsafe impl Sync for Scenario {}

/// What lies on a thread's stack is its own business: below a variable of whoever calls C. No byte more, what lies beside
/// the stack may be memory that a scenario explores.
fn note_stack(of_caller: &u64, words: usize) {
    const ABOVE: usize = 4096; /* frames that have begun it, at most */
    let top = of_caller as *const u64 as usize;
    world(|w| w.stacks.push((top - (words * 8 - ABOVE), top)));
}

fn run_once(s: &'static Scenario) {
    let local = 0u64;
    EXECUTIONS.fetch_add(1, Relaxed);
    note_stack(&local, FIRST_STACK_WORDS);
    unsafe { (s.setup)() };
    world(|w| {
        w.ids = vec![thread::current().id()];
        w.begin_exploring(s.cells as usize);
    });
    let others: Vec<_> = (1..s.threads)
        .map(|i| {
            let handle = thread::Builder::new()
                .stack_size(STACK_WORDS)
                .spawn(move || {
                    let local = 0u64;
                    note_stack(&local, STACK_WORDS);
                    unsafe { (s.thread)(i) }
                })
                .unwrap();
            world(|w| w.ids.push(handle.thread().id()));
            handle
        })
        .collect();
    unsafe { (s.thread)(0) };
    for other in others {
        other.join().unwrap();
    }
    unsafe { (s.check)() };
    world(|w| w.end());
}

fn lines_of(module: &str, base: usize, pcs: &[usize]) -> Vec<String> {
    let offsets: Vec<String> = pcs.iter().map(|pc| format!("{:#x}", pc - base - 1)).collect();
    let out = Command::new("addr2line").args(["-s", "-f", "-e", module]).args(&offsets).output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    (0..pcs.len()).map(|i| match lines.get(2 * i..2 * i + 2) {
        Some(l) => format!("{} {}", l[1], l[0]),
        None => offsets[i].clone(),
    }).collect()
}

/// The end of the execution that failed, step by step.
fn show_trace(module: &str, base: usize) {
    WORLD.with(|w| {
        let w = match w.try_borrow() {
            Ok(w) => w,
            Err(_) => return,
        };
        let last = &w.trace[w.trace.len().saturating_sub(TRACE_SHOWN)..];
        let lines = lines_of(module, base, &last.iter().map(|s| s.pc).collect::<Vec<_>>());
        const ORDERS: [&str; 6] = ["relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"];
        for (step, line) in last.iter().zip(lines) {
            eprintln!("  thread {} {:10} {:#x} = {:#x} {} {}", step.thread, step.what, step.at, step.value,
                ORDERS[step.order.clamp(0, 5) as usize], line);
        }
    });
}

fn explore(s: &'static Scenario) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    /* From the environment, of which nothing may cut a check short. */
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.checkpoint_file = None;
    builder.max_threads = loom::MAX_THREADS;
    builder.preemption_bound = if s.preemptions > 0 { Some(s.preemptions as usize) } else { None };
    builder.check(move || run_once(s));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() || arguments[0].starts_with('-') {
        eprintln!("Usage: hakmem-model MODULE [SCENARIO...]\nExplores the scenarios of a module, or names them.");
        exit(2);
    }
    let module = arguments[0].clone();
    let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(&module) }.unwrap_or_else(|e| {
        eprintln!("hakmem-model: {e}");
        exit(2);
    })));
    let start: Symbol<unsafe extern "C" fn(*const Hooks) -> *const *const Scenario> =
        unsafe { library.get(b"model_start\0") }.expect("a module has model_start");
    let base: Symbol<unsafe extern "C" fn() -> usize> =
        unsafe { library.get(b"model_base\0") }.expect("a module has model_base");
    let base = unsafe { base() };
    let shown = module.clone();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<&str>() && !info.payload().is::<String>() {
            return; /* loom's way to end a thread */
        }
        show_trace(&shown, base);
        eprintln!("hakmem-model: failed in execution {}: {info}", EXECUTIONS.load(Relaxed));
        exit(1);
    }));
    let mut next = unsafe { start(&HOOKS) };
    world(|w| w.always_ignored = w.ignored.len());
    let mut seen = 0;
    unsafe {
        while let Some(s) = (*next).as_ref() {
            next = next.add(1);
            let name = CStr::from_ptr(s.name).to_str().unwrap();
            if arguments.len() == 1 {
                println!("{name}");
                continue;
            }
            if !arguments[1..].iter().any(|a| a == name) {
                continue;
            }
            seen += 1;
            EXECUTIONS.store(0, Relaxed);
            let from = std::time::Instant::now();
            explore(s);
            println!("{name}: {} executions of {} threads, {} preemptions at most, {:.1} s",
                EXECUTIONS.load(Relaxed), s.threads,
                if s.preemptions > 0 { s.preemptions.to_string() } else { "any number of".into() },
                from.elapsed().as_secs_f64());
        }
    }
    if seen != arguments.len() - 1 {
        eprintln!("hakmem-model: no such scenario in {module}: {}", arguments[1..].join(" "));
        exit(2);
    }
}
