//! Training with a failure at each of its allocations, one at a time: the values are the same, nothing stays allocated,
//! nothing is printed, and it ends.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::thread;

use tch::nn::{self, Optimizer, OptimizerConfig as _, VarStore};
use tch::{TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::Rollback;

use crate::ground;
use crate::nets::{self, Net, ROADS, Road, copy};
use crate::rounds::rounds;
use crate::stage::{alone, caught, copies, failing_at, printed};

/// More than the allocations of any training here: a loop that goes on so long would never end.
const MOST: u32 = 5000;

/// Few rows, because they are processed hundreds of times.
const SOME_ROWS: Range<usize> = 3..7;

/// Adds gradients to existing ones, so an attempt that fails half-way has added some.
struct Accumulation {
    net: Net,
    rollbacks: [Rollback; 2],
    /// Gradients and buffers to begin with.
    start: Vec<Tensor>,
    /// Allocated bytes at the beginning of each attempt of the last run.
    levels: RefCell<Vec<u64>>,
}

impl Accumulation {
    fn new(net: Net) -> Self {
        net.zero_gradients();
        net.loss(Road::Errors, &(0..3)).unwrap().backward();
        Self {
            rollbacks: ROADS.map(|road| net.rollback(road)),
            start: copies(&net.state()),
            levels: RefCell::default(),
            net,
        }
    }

    fn survives_a_failure_anywhere(&self, road: Road) {
        let right = self.run(road, MOST).expect_err("so many there are not");
        // Read only once, so that bytes left by one failure do not become the level of the next.
        let allocated = ground::allocated_bytes();
        let mut allocation = 0;
        while let Ok(values) = self.run(road, allocation) {
            assert_eq!(values, right, "{} at allocation {allocation}", self.net.name);
            drop(values);
            assert_eq!(ground::allocated_bytes(), allocated, "allocation {allocation}");
            assert_eq!(self.levels.take(), [allocated; 2], "allocation {allocation}");
            allocation += 1;
        }
        assert!(allocation > 10, "{allocation} allocations: too few for a step");
    }

    /// Returns the loss, gradients and buffers, as an error if there is no such allocation.
    fn run(&self, road: Road, allocation: u32) -> Result<Vec<Tensor>, Vec<Tensor>> {
        copy(&self.start, &self.net.state());
        tch::manual_seed(11);
        let rollback = &self.rollbacks[road as usize];
        self.levels.take();
        let step = || {
            execute::with::<NoCache>().before_retry(|_| rollback.restore()).batch(2, |_| {
                self.levels.borrow_mut().push(ground::allocated_bytes());
                rollback.refresh()?;
                let loss = self.net.loss(road, &SOME_ROWS)?;
                self.net.backward(road, &loss)?;
                Ok::<_, TchError>(loss.detach())
            })
        };
        let ((loss, has_failed), printed) = printed(|| failing_at(allocation, step));
        let attempts = self.levels.borrow().len();
        assert_eq!((printed, attempts), (0, 1 + usize::from(has_failed)), "allocation {allocation}");
        let values = copies(self.net.state().iter().chain([&loss.unwrap()]));
        if has_failed { Ok(values) } else { Err(values) }
    }
}

#[test]
fn of_gradients_that_are_accumulated() {
    let _alone = alone();
    for net in [nets::perceptron, nets::convolution, nets::lstm, || nets::transformer(0.5), nets::residual] {
        let work = Accumulation::new(net());
        for road in ROADS {
            work.survives_a_failure_anywhere(road);
        }
    }
}

/// Failures are injected per thread, so two threads can run out of memory at once and exactly.
#[test]
fn of_two_threads_at_once() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    let works = [nets::perceptron(), nets::transformer(0.0)].map(Accumulation::new);
    let survive = |work: Accumulation| {
        let right = work.run(Road::Panics, MOST).unwrap_err();
        let mut failing = (0..MOST).map_while(|allocation| work.run(Road::Panics, allocation).ok());
        assert!(failing.all(|values| values == right));
    };
    thread::scope(|scope| {
        for work in works {
            scope.spawn(move || survive(work));
        }
    });
    assert_eq!(ground::allocated_bytes(), before);
}

type MakeOptimizer = fn(&VarStore) -> Optimizer;

/// Two steps of a new net: the first one makes the gradients and the optimizer's state.
struct Training {
    net: fn() -> Net,
    optimizer: MakeOptimizer,
}

impl Training {
    /// Returns how many allocations belong to the optimizer's steps.
    fn survives_a_failure_anywhere(&self) -> u32 {
        let (has_failed, right) = self.run(MOST);
        assert!(!has_failed);
        let allocated = ground::allocated_bytes();
        let [mut through, mut refused] = [0, 0];
        loop {
            let (has_failed, trained) = self.run(through + refused);
            if trained.is_none() {
                refused += 1;
            } else {
                assert_eq!(trained, right, "allocation {}", through + refused);
                through += 1;
            }
            drop(trained);
            assert_eq!(ground::allocated_bytes(), allocated, "after {through} and {refused}");
            if !has_failed {
                break;
            }
        }
        assert!(through > 20, "{through} allocations: too few for two steps");
        refused
    }

    /// Returns true if there was such an allocation, and the final weights and buffers; `None` if the optimizer ran out
    /// of memory.
    ///
    /// The optimizer's step is not in the body: a retry would step twice for the weights already changed, and a smaller
    /// batch would not make the step cheaper.
    fn run(&self, allocation: u32) -> (bool, Option<Vec<Tensor>>) {
        let net = (self.net)();
        let mut optimizer = (self.optimizer)(&net.variables);
        let buffers = net.rollback(Road::Errors);
        let stepping = Cell::new(false);
        let train = || {
            for _ in 0..2 {
                let with = execute::with::<NoCache>().before_retry(|_| buffers.restore());
                with.batch(2, |_| gradients_of(&net, &buffers)).unwrap();
                stepping.set(true);
                optimizer.step();
                stepping.set(false);
            }
        };
        let ((outcome, has_failed), printed) = printed(|| failing_at(allocation, || caught(train)));
        let Err(text) = outcome else {
            assert_eq!(printed, 0, "allocation {allocation}");
            return (has_failed, Some(copies(net.weights().iter().chain(&net.buffers()))));
        };
        assert!(stepping.get() && text.contains("a failure was injected"), "{text}");
        assert_eq!(printed, 1, "allocation {allocation}");
        (has_failed, None)
    }
}

/// Uses tch's own backward, which a step that begins with zero gradients can repeat.
fn gradients_of(net: &Net, buffers: &Rollback) -> Result<(), TchError> {
    net.weights().iter_mut().for_each(Tensor::zero_grad);
    buffers.refresh()?;
    net.loss(Road::Errors, &SOME_ROWS)?.f_backward()
}

fn adam(variables: &VarStore) -> Optimizer {
    nn::Adam::default().build(variables, 0.1).unwrap()
}

#[test]
fn of_training_with_each_optimizer() {
    let _alone = alone();
    let optimizers: [(MakeOptimizer, bool); 3] = [
        (|variables| nn::Sgd::default().build(variables, 0.1).unwrap(), false),
        (|variables| nn::sgd(0.9, 0.0, 0.01, true).build(variables, 0.1).unwrap(), true),
        (adam, true),
    ];
    let nets: [fn() -> Net; 4] = [nets::perceptron, nets::convolution, nets::lstm, || nets::transformer(0.0)];
    // By day each net has one optimizer.
    let part = rounds(3, 1);
    for (row, (optimizer, allocates)) in optimizers.into_iter().enumerate() {
        for net in nets.into_iter().skip((part - row % part) % part).step_by(part) {
            let refused = Training { net, optimizer }.survives_a_failure_anywhere();
            assert_eq!(refused > 0, allocates, "{refused} allocations");
        }
    }
}
