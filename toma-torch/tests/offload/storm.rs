//! Threads that run all operations at once on shared tensors, and compare every bit.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::ground;
use fastrand::Rng;
use tch::{TchError, Tensor};
use toma_torch::offload::{Entered, Genoa, Lru, Manager, TensorRef};

use crate::kit::{alone, manager, poisoned};
use crate::rounds::rounds;

const THREADS: u64 = 8;
const TENSORS: usize = 20;
/// From sizes that malloc reuses at once to sizes that it maps separately.
const SIZES: [i64; 3] = [100, 5000, 60_000];

/// A tensor whose elements follow from its first. As in programs, a lock keeps writers and readers apart.
struct Slot {
    first: RwLock<i64>,
    tensor: Mutex<Tensor>,
}

impl Slot {
    /// Puts another tensor in its place; threads may still hold handles to the one before.
    fn replace(&self, draws: &mut Rng) {
        let mut first = self.first.write().unwrap();
        *first = draws.i64(0..1000);
        *self.tensor.lock().unwrap() = ramp(*first, SIZES[draws.usize(..SIZES.len())]);
    }
}

/// Uses a single operator, because between two of them another thread could park the result of the first.
fn ramp(first: i64, size: i64) -> Tensor {
    Tensor::arange_start(first, first + size, ground::floats())
}

pub(crate) fn elements(tensor: &Tensor) -> Result<Vec<f32>, TchError> {
    let mut elements = vec![0_f32; tensor.numel()];
    tensor.f_copy_data(&mut elements, tensor.numel()).map(|()| elements)
}

/// Returns true if each element is 1 more than the one before.
#[expect(clippy::float_cmp, clippy::cast_precision_loss, reason = "small integers are exact")]
fn are_of(elements: &[f32], first: i64) -> bool {
    elements.iter().enumerate().all(|(at, element)| *element == (first + i64::try_from(at).unwrap()) as f32)
}

struct World {
    slots: Vec<Slot>,
    /// The current manager; threads that still hold an earlier one drop it later.
    manager: Mutex<Manager>,
    ends: Instant,
    compared: AtomicU64,
    refused: AtomicU64,
    managers: AtomicU64,
    /// Numbers of parks that have begun and that have ended.
    parks: [AtomicU64; 2],
}

impl World {
    fn new(seconds: u64) -> Self {
        let slot =
            |at: usize| Slot { first: RwLock::new(0), tensor: Mutex::new(ramp(0, SIZES[at % SIZES.len()])) };
        Self {
            slots: (0..TENSORS).map(slot).collect(),
            manager: Mutex::new(manager(Lru)),
            ends: Instant::now() + Duration::from_secs(seconds),
            compared: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            managers: AtomicU64::new(1),
            parks: Default::default(),
        }
    }

    /// Returns the numbers of comparisons, refusals and managers.
    fn counts(&self) -> [u64; 3] {
        [&self.compared, &self.refused, &self.managers].map(|counter| counter.load(Ordering::Relaxed))
    }

    fn is_enough(&self) -> bool {
        let [compared, _, managers] = self.counts();
        compared > 500 && managers > 20
    }

    /// True once the time is over and enough was compared, which takes longer next to other programs.
    fn is_over(&self) -> bool {
        let late = Instant::now().saturating_duration_since(self.ends);
        !late.is_zero() && (self.is_enough() || late > Duration::from_secs(60))
    }

    fn manager(&self) -> Manager {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that the elements are right, or refused because their tensor was evicted.
    fn compares(&self, outcome: Result<Vec<f32>, String>, first: i64) {
        match outcome {
            Ok(elements) => {
                assert!(are_of(&elements, first), "from {first}: {:?}", &elements[..4]);
                self.compared.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                assert!(error.contains("is evicted from cpu"), "{error}");
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Checks the result of an operator. On a thread that has entered, only parked tensors may fail.
    fn operates<T>(
        &self,
        is_entered: bool,
        operator: impl FnOnce() -> Result<T, TchError>,
    ) -> Result<T, String> {
        let [begun, ended] = self.parks.each_ref();
        let ended_before = ended.load(Ordering::SeqCst);
        let outcome = operator().map_err(|error| error.to_string());
        let may_fail = !is_entered || begun.load(Ordering::SeqCst) > ended_before;
        let error = outcome.as_ref().err();
        assert!(error.is_none() || may_fail, "on a thread that has entered: {error:?}");
        outcome
    }

    fn work(&self, seed: u64, file: &Path) {
        let mut draws = Rng::with_seed(seed);
        let mut handles: Vec<TensorRef> = Vec::new();
        let mut entered: Option<Entered> = None;
        while !self.is_over() {
            if seed.is_multiple_of(2) && entered.is_none() {
                entered = self.manager().enter().ok();
            }
            let slot = &self.slots[draws.usize(..TENSORS)];
            match draws.usize(..14) {
                0 => entered = None,
                1 => slot.replace(&mut draws),
                2 => self.writes(slot, entered.is_some()),
                3 => handles.truncate(draws.usize(..4)),
                4 => self.parks(),
                11.. => self.moves(slot, &mut handles, &mut draws),
                _ => self.reads(slot, file, entered.is_some(), &mut draws),
            }
        }
    }

    fn writes(&self, slot: &Slot, is_entered: bool) {
        let mut first = slot.first.write().unwrap();
        let mut tensor = slot.tensor.lock().unwrap().shallow_clone();
        match self.operates(is_entered, || tensor.f_add_(&Tensor::from(1_f32)).map(drop)) {
            Ok(()) => *first += 1,
            Err(error) => self.compares(Err(error), *first),
        }
    }

    /// Tries to park, which mostly fails because a tensor is in use. Every other manager never does, so that nothing may
    /// fail on threads that have entered it.
    fn parks(&self) {
        if self.managers.load(Ordering::Relaxed).is_multiple_of(2) {
            self.parks[0].fetch_add(1, Ordering::SeqCst);
            drop(self.manager().park());
            self.parks[1].fetch_add(1, Ordering::SeqCst);
        }
    }

    fn reads(&self, slot: &Slot, file: &Path, is_entered: bool, draws: &mut Rng) {
        let first = slot.first.read().unwrap();
        let tensor = slot.tensor.lock().unwrap().shallow_clone();
        let message = |error: TchError| error.to_string();
        match draws.usize(..6) {
            0 | 1 => {
                let copied = self.operates(is_entered, || elements(&tensor.f_mul(&Tensor::from(1_f32))?));
                self.compares(copied, *first);
            }
            2 => self.compares(self.operates(is_entered, || Vec::<f32>::try_from(&tensor)), *first),
            3 => self.compares(elements(&tensor).map_err(message), *first),
            4 => self.compares(streamed(&tensor).map_err(message), *first),
            _ => self.compares(filed(&tensor, file), *first),
        }
    }

    /// Adopts, evicts or fetches tensors, also those that other threads read and write.
    fn moves(&self, slot: &Slot, handles: &mut Vec<TensorRef>, draws: &mut Rng) {
        let adopted = self.manager().adopt(&slot.tensor.lock().unwrap());
        match draws.usize(..3) {
            0 => handles.push(adopted),
            1 => drop(adopted.offload()),
            _ => drop(handles.pop().unwrap_or(adopted).fetch()),
        }
    }

    /// Replaces the manager repeatedly, as a program with one manager per epoch.
    fn replaces_managers(&self) {
        for round in 0_u64.. {
            thread::sleep(Duration::from_millis(50));
            if self.is_over() {
                return;
            }
            let next = if round % 2 == 0 {
                manager(Genoa)
            } else {
                manager(Lru).budget(ground::allocated_bytes() + (8 << 20))
            };
            *self.manager.lock().unwrap() = next;
            self.managers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn streamed(tensor: &Tensor) -> Result<Vec<f32>, TchError> {
    let mut stream = Vec::new();
    Tensor::save_multi_to_stream(&[("it", tensor)], &mut stream)?;
    elements(&Tensor::load_multi_from_stream(Cursor::new(stream))?[0].1)
}

/// Writes the tensor to a file and reads it again. tch panics if it cannot read the memory.
fn filed(tensor: &Tensor, file: &Path) -> Result<Vec<f32>, String> {
    let written =
        catch_unwind(AssertUnwindSafe(|| Tensor::write_safetensors(&[("it", tensor)], file).unwrap()));
    written.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())?;
    elements(&Tensor::read_safetensors(file).unwrap()[0].1).map_err(|error| error.to_string())
}

#[test]
fn threads_that_share_tensors_find_every_bit_of_them() {
    poisoned("storm::threads_that_share_tensors_find_every_bit_of_them", || {
        let _alone = alone();
        std::panic::set_hook(Box::new(|panic| {
            let text = panic.to_string();
            if !text.contains("safetensors.rs") {
                eprintln!("{text}");
            }
        }));
        let world = World::new(rounds(4, 60));
        thread::scope(|scope| {
            for at in 0..THREADS {
                let world = &world;
                scope.spawn(move || {
                    let file = std::env::temp_dir().join(format!("toma-storm-{}-{at}", std::process::id()));
                    world.work(at, &file);
                    drop(std::fs::remove_file(file));
                });
            }
            world.replaces_managers();
        });
        let [compared, refused, managers] = world.counts();
        println!("{compared} compared, {refused} refused, {managers} managers, {}", world.manager().report());
        assert!(world.is_enough(), "{compared}, {managers}");
    });
}
