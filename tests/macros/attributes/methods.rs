//! Methods: every kind of `self`, traits, generic blocks.

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache};

use crate::attributes::{allocate_or_panic, failures, fits};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    limit: usize,
    runs: usize,
}

const MODEL: Model = Model { limit: 8, runs: 0 };

impl Model {
    #[toma::batch(initial = 16, cache = NoCache)]
    fn shared(&self, size: usize) -> Result<usize, OutOfMemory> {
        fits(size, self.limit).map(|()| size)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn exclusive(&mut self, size: usize, step: usize) -> Result<usize, OutOfMemory> {
        self.runs += step;
        fits(size, self.limit)?;
        Ok(self.runs)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn by_value(self, size: usize) -> Result<Self, OutOfMemory> {
        fits(size, self.limit).map(|()| self)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn changed_value(mut self, size: usize) -> Result<Self, OutOfMemory> {
        self.runs += 1;
        fits(size, self.limit)?;
        Ok(self)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn typed(self: &Self, size: usize) -> Result<usize, OutOfMemory> {
        fits(size, self.limit).map(|()| size)
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn boxed(self: Box<Self>, size: i64) -> i64 {
        allocate_or_panic(size, self.limit);
        size
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn associated(size: usize, limit: usize) -> Result<Self, OutOfMemory> {
        fits(size, limit)?;
        Ok(Self { limit, runs: size })
    }

    #[toma::range(initial = 16, cache = NoCache)]
    fn sum(&mut self, start: usize, end: usize, values: &[usize]) -> Result<(), OutOfMemory> {
        fits(end - start, self.limit)?;
        self.runs += values[start..end].iter().sum::<usize>();
        Ok(())
    }

    #[toma::chunked(initial = 16, cache = NoCache)]
    fn scale(&self, data: &mut [usize], _start: usize, _end: usize, factor: usize) {
        allocate_or_panic(data.len(), self.limit);
        for value in data {
            *value *= factor;
        }
    }

    #[toma::batch(initial = self.runs + extra, cache = NoCache)]
    fn starts_at(&self, size: usize, extra: usize) -> usize {
        size
    }
}

#[test]
fn every_kind_of_self() {
    let mut model = MODEL;
    assert_eq!(model.shared(), Ok(8));
    assert_eq!(model.exclusive(5), Ok(10));
    assert_eq!(model.by_value(), Ok(Model { limit: 8, runs: 10 }));
    assert_eq!(model.changed_value(), Ok(Model { limit: 8, runs: 12 }));
    assert_eq!(model.runs, 10, "the copy was changed");
    assert_eq!(model.typed(), Ok(8));
    assert_eq!(Box::new(model).boxed(), 8);
    assert_eq!(Model::associated(4), Ok(Model { limit: 4, runs: 4 }));
    assert_eq!(model.starts_at(3), 13);
}

#[test]
fn pieces_of_methods() {
    let mut model = MODEL;
    model.sum(0, 100, &(0..100).collect::<Vec<_>>()).unwrap();
    assert_eq!((model.runs, failures()), (4950, 1));
    let mut data = [1; 100];
    model.scale(&mut data, 3);
    assert_eq!((data, failures()), ([3; 100], 1));
}

trait Infer {
    const INITIAL: usize;

    fn infer(&mut self, input: &str) -> Result<String, OutOfMemory>;

    fn fill(&self, out: &mut [u8]);
}

impl Infer for Model {
    const INITIAL: usize = 32;

    #[toma::batch(initial = Self::INITIAL, cache = NoCache)]
    fn infer(&mut self, size: usize, input: &str) -> Result<String, OutOfMemory> {
        self.runs += 1;
        fits(size, self.limit)?;
        Ok(format!("{input}{size}"))
    }

    #[toma::chunked(cache = NoCache)]
    fn fill(&self, out: &mut [u8], start: usize, end: usize) {
        allocate_or_panic(end - start, self.limit);
        out.fill(7);
    }
}

#[test]
fn methods_of_traits() {
    let mut model = MODEL;
    let infer: &mut dyn Erased = &mut model;
    assert_eq!(infer.infer_erased("n"), Ok(String::from("n8")));
    assert_eq!(model.runs, 3);
    let mut out = [0; 50];
    model.fill(&mut out);
    assert_eq!((out, failures()), ([7; 50], 3));
}

/// An object-safe trait whose method has a body of its own.
trait Erased {
    fn limit(&self) -> usize;

    fn infer_erased(&mut self, input: &str) -> Result<String, OutOfMemory>;

    #[toma::batch(initial = 16, cache = NoCache)]
    fn provided(&self, size: usize) -> Result<usize, OutOfMemory> {
        fits(size, self.limit()).map(|()| size)
    }
}

impl Erased for Model {
    fn limit(&self) -> usize {
        self.limit
    }

    fn infer_erased(&mut self, input: &str) -> Result<String, OutOfMemory> {
        self.infer(input)
    }
}

#[test]
fn provided_methods() {
    let erased: &dyn Erased = &MODEL;
    assert_eq!(erased.provided(), Ok(8));
}

struct Layers<'w, T, const N: usize> {
    weights: [&'w T; N],
}

impl<'w, T: Clone + PartialEq, const N: usize> Layers<'w, T, N>
where
    T: Default,
{
    #[toma::batch(initial = N, cache = GlobalCache)]
    fn first(&self, size: usize, limit: usize) -> Result<(usize, &'w T), OutOfMemory> {
        fits(size, limit)?;
        Ok((size, self.weights[0]))
    }

    #[toma::batch(initial = N, cache = NoCache)]
    fn filled(&self, size: usize) -> Result<Vec<T>, OutOfMemory> {
        fits(size, 2)?;
        let with = T::default();
        Ok(vec![with; size])
    }
}

#[test]
fn generic_blocks() {
    let (weight, other) = (String::from("w"), 5);
    let layers = Layers { weights: [&weight; 8] };
    assert_eq!(layers.first(4), Ok((4, &weight)));
    assert_eq!(layers.filled(), Ok(vec![String::new(); 2]));
    let instantiated_otherwise = Layers { weights: [&other; 16] };
    assert_eq!(instantiated_otherwise.first(16), Ok((4, &other)), "all instantiations learn together");
}
