//! Random programs: functions that call each other, loops, early exits and panics, on several threads.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Lines of a function are numbered from its number times this.
pub(crate) const LINES: u32 = 64;
pub(crate) const FUNCTIONS: usize = 3;
pub(crate) const DEVICES: usize = 2;
/// The largest number of events of a thread.
const LONGEST: usize = 60;

/// An event of a thread. Lines are numbers, and blocks are numbered in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Enter(u32),
    Mark(u32),
    LeftBlock(u32),
    Leave,
    Allocate { device: usize, bytes: u64 },
    Free(usize),
    OutOfMemory(usize),
    Reserve { device: usize, total: u64 },
    GradientOf(Option<u32>),
    Works(u64),
}

#[derive(Clone, Debug)]
enum Statement {
    Allocate {
        device: usize,
        bytes: u64,
    },
    Free(Index),
    OutOfMemory(usize),
    Reserve {
        device: usize,
        total: u64,
    },
    GradientOf(Option<u32>),
    Works(u64),
    Call(usize),
    Loop(Repeat, Block),
    /// Exits from a later pass on.
    Exit(Exit, usize),
}

#[derive(Clone, Debug)]
struct Repeat {
    times: usize,
    /// The statement of its condition or its iterator before each pass, without a mark.
    head: Box<Statement>,
}

#[derive(Clone, Debug)]
struct Block {
    statements: Vec<Statement>,
    /// Dropped on each way out.
    local: Option<Index>,
    /// True if it ends with a mark of its own.
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Exit {
    Break,
    Return,
    Panic,
}

#[derive(Clone, Debug)]
struct Thread {
    functions: Vec<Block>,
    /// Statements outside of functions, before and after each call.
    outside: Vec<Statement>,
    calls: usize,
}

/// The events of all threads, in one order.
pub(crate) fn programs() -> impl Strategy<Value = Vec<(usize, Event)>> {
    (vec(thread(), 1..4), vec(any::<Index>(), LONGEST)).prop_map(|(threads, order)| {
        let mut waiting: Vec<_> = threads.iter().map(|thread| thread.run().into_iter().peekable()).collect();
        let mut merged = Merged::default();
        for index in order.iter().cycle() {
            let busy: Vec<_> =
                (0..waiting.len()).filter(|thread| waiting[*thread].peek().is_some()).collect();
            if busy.is_empty() {
                break;
            }
            let thread = *index.get(&busy);
            if let Some(event) = waiting[thread].next().and_then(|drawn| merged.resolve(drawn)) {
                merged.events.push((thread, event));
            }
        }
        merged.events
    })
}

/// An event before the live blocks are known.
#[derive(Clone, Copy)]
enum Drawn {
    Event(Event),
    Free(Index),
}

#[derive(Default)]
struct Merged {
    events: Vec<(usize, Event)>,
    born: usize,
    living: Vec<usize>,
}

impl Merged {
    fn resolve(&mut self, drawn: Drawn) -> Option<Event> {
        match drawn {
            Drawn::Free(_) if self.living.is_empty() => None,
            Drawn::Free(index) => Some(Event::Free(self.living.swap_remove(index.index(self.living.len())))),
            Drawn::Event(event) => {
                if let Event::Allocate { .. } = event {
                    self.living.push(self.born);
                    self.born += 1;
                }
                Some(event)
            }
        }
    }
}

fn thread() -> impl Strategy<Value = Thread> {
    let functions = vec(block(), FUNCTIONS);
    (functions, vec(simple(), 0..3), 0..3_usize).prop_map(|(functions, outside, calls)| Thread {
        functions,
        outside,
        calls,
    })
}

fn block() -> impl Strategy<Value = Block> {
    let of = |statement: BoxedStrategy<Statement>| {
        (vec(statement, 0..6), any::<Option<Index>>(), any::<bool>())
            .prop_map(|(statements, local, is_closed)| Block { statements, local, is_closed })
    };
    let leaf = prop_oneof![
        8 => simple(),
        2 => (0..FUNCTIONS).prop_map(Statement::Call),
        1 => (exit(), 0..3_usize).prop_map(|(exit, after)| Statement::Exit(exit, after)),
    ];
    let nested = leaf.prop_recursive(2, 12, 5, move |inner| {
        let call = (0..FUNCTIONS).prop_map(Statement::Call);
        let head = prop_oneof![simple(), simple(), call].prop_map(Box::new);
        let repeat = (0..3_usize, head).prop_map(|(times, head)| Repeat { times, head });
        let looped = (repeat, of(inner.clone())).prop_map(|(repeat, block)| Statement::Loop(repeat, block));
        prop_oneof![3 => inner, 1 => looped]
    });
    of(nested.boxed())
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![Just(Exit::Break), Just(Exit::Return), Just(Exit::Panic)]
}

fn simple() -> BoxedStrategy<Statement> {
    let device = || 0..DEVICES;
    let line = (0..FUNCTIONS, 0..4_u32).prop_map(|(function, line)| line_of(function, line));
    prop_oneof![
        5 => (device(), 0..9_u64).prop_map(|(device, bytes)| Statement::Allocate { device, bytes }),
        4 => any::<Index>().prop_map(Statement::Free),
        1 => device().prop_map(Statement::OutOfMemory),
        1 => (device(), 0..99_u64).prop_map(|(device, total)| Statement::Reserve { device, total }),
        1 => proptest::option::of(line).prop_map(Statement::GradientOf),
        1 => (0..9_u64).prop_map(Statement::Works),
    ]
    .boxed()
}

fn line_of(function: usize, line: u32) -> u32 {
    u32::try_from(function).unwrap() * LINES + line % LINES
}

impl Thread {
    fn run(&self) -> Vec<Drawn> {
        let mut run = Run { thread: self, events: Vec::new(), visits: BTreeMap::new() };
        for call in 0..self.calls {
            self.outside.iter().for_each(|statement| run.does(statement));
            let _ = run.function(call % FUNCTIONS);
        }
        run.events
    }
}

struct Run<'a> {
    thread: &'a Thread,
    events: Vec<Drawn>,
    visits: BTreeMap<u32, usize>,
}

type Flow = Result<(), Exit>;

impl Run<'_> {
    fn record(&mut self, event: Event) {
        self.events.push(Drawn::Event(event));
    }

    /// Runs a statement without others inside.
    fn does(&mut self, statement: &Statement) {
        match *statement {
            Statement::Allocate { device, bytes } => self.record(Event::Allocate { device, bytes }),
            Statement::Free(index) => self.events.push(Drawn::Free(index)),
            Statement::OutOfMemory(device) => self.record(Event::OutOfMemory(device)),
            Statement::Reserve { device, total } => self.record(Event::Reserve { device, total }),
            Statement::GradientOf(line) => self.record(Event::GradientOf(line)),
            Statement::Works(time) => self.record(Event::Works(time)),
            Statement::Call(_) | Statement::Loop(..) | Statement::Exit(..) => unreachable!("{statement:?}"),
        }
    }

    /// A panic goes on to the thread's end, all else ends here.
    fn function(&mut self, function: usize) -> Flow {
        self.record(Event::Enter(line_of(function, 0)));
        let mut next = 1;
        let flow = self.block(&self.thread.functions[function], function, &mut next);
        self.record(Event::Leave);
        flow.or_else(|exit| if exit == Exit::Panic { Err(exit) } else { Ok(()) })
    }

    fn block(&mut self, block: &Block, function: usize, next: &mut u32) -> Flow {
        let mut flow = Ok(());
        for statement in &block.statements {
            let line = line_of(function, *next);
            *next += 1;
            if flow.is_ok() {
                flow = self.statement(statement, line, next);
            }
        }
        if block.is_closed && flow.is_ok() {
            self.record(Event::Mark(line_of(function, *next)));
        }
        *next += 1;
        self.events.extend(block.local.map(Drawn::Free));
        flow
    }

    fn statement(&mut self, statement: &Statement, line: u32, next: &mut u32) -> Flow {
        self.record(Event::Mark(line));
        if self.events.len() > LONGEST {
            return Err(Exit::Panic);
        }
        match statement {
            Statement::Call(function) => self.function(*function),
            Statement::Loop(repeat, block) => self.repeat(repeat, block, line, next),
            Statement::Exit(exit, after) => {
                let visits = self.visits.entry(line).or_default();
                *visits += 1;
                if *visits > *after { Err(*exit) } else { Ok(()) }
            }
            simple => {
                self.does(simple);
                Ok(())
            }
        }
    }

    fn repeat(&mut self, repeat: &Repeat, block: &Block, line: u32, next: &mut u32) -> Flow {
        let first = *next;
        for _ in 0..repeat.times {
            match *repeat.head {
                Statement::Call(function) => self.function(function)?,
                ref simple => self.does(simple),
            }
            *next = first;
            let flow = self.block(block, usize::try_from(line / LINES).unwrap(), next);
            self.record(Event::LeftBlock(line));
            match flow {
                Err(Exit::Break) => break,
                other => other?,
            }
        }
        Ok(())
    }
}
