//! Tensors of candle in loops that shrink, and the classes of its errors.

// Shared test modules use the library's public name.
extern crate toma_core as toma;

#[path = "../../tests/common/named.rs"]
mod named;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use candle_core::{D, Device, Error, Result, Tensor};
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult::{self, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_OUT_OF_MEMORY};
use toma_candle::{Concatenate as _, memory};
use toma_core::classify::{Class, Classify as _, classify_error};
use toma_core::memory::MemorySource;
use toma_core::{NoCache, execute, report};

use named::Named;

fn driver(code: CUresult) -> Error {
    Error::Cuda(Box::new(DriverError(code)))
}

fn rows(count: usize) -> Tensor {
    let count = u32::try_from(count).unwrap();
    Tensor::arange(0, count * 3, &Device::Cpu).unwrap().reshape((count as usize, 3)).unwrap()
}

/// A body that fails with more than three rows.
fn double(rows: &Tensor) -> Result<Tensor> {
    if rows.dim(0)? > 3 { Err(driver(CUDA_ERROR_OUT_OF_MEMORY)) } else { rows + rows }
}

fn numbers(tensor: &Tensor) -> Vec<u32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn pieces_are_put_back_together() {
    for count in [1, 3, 4, 10] {
        let input = rows(count);
        let doubled = execute::with::<NoCache>()
            .map(0..count, 8, |start, end| double(&input.narrow(0, start, end - start)?))
            .concatenate(0)
            .unwrap();
        assert_eq!(numbers(&doubled), numbers(&(&input + &input).unwrap()));
        assert_eq!(report::last().unwrap().out_of_memory, usize::from(count > 3) + usize::from(count > 7));
    }
    let none = execute::with::<NoCache>().map(0..0, 8, |_, _| Ok::<_, Error>(rows(1))).concatenate(0);
    assert!(none.unwrap_err().to_string().contains("at least one tensor"));
    assert!(vec![rows(2)].concatenate(7).is_err(), "as of several parts");
}

#[test]
fn chunks_share_storage_and_results_are_written_in_place() {
    let (input, output) = (rows(10), Tensor::zeros((10, 3), candle_core::DType::U32, &Device::Cpu).unwrap());
    let mut seen = [0; 10];
    let data = (&input, &mut seen[..]);
    let done = execute::with::<NoCache>().chunked(data, 10, |(rows, seen), start, end| -> Result<()> {
        assert_eq!(rows.dims(), [end - start, 3]);
        output.slice_set(&double(rows)?, 0, start)?;
        seen.fill(start);
        Ok(())
    });
    done.unwrap();
    assert_eq!(numbers(&output), numbers(&(&input + &input).unwrap()));
    assert_eq!(seen, [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]);
    // Cuts along the last axis of a tensor that is passed by value.
    let mut columns = Vec::new();
    execute::with::<NoCache>()
        .dim(-1)
        .chunked(input, 2, |chunk, _, _| columns.push(chunk.dim(D::Minus1).unwrap()));
    assert_eq!(columns, [2, 1]);
}

#[test]
fn tensors_that_cannot_be_cut_or_written_are_named_once() {
    let transposed = rows(4).t().unwrap();
    let mut attempts = 0;
    let failed = execute::with::<NoCache>().chunked(&transposed, 3, |chunk, start, _| -> Result<()> {
        attempts += 1;
        rows(4).t()?.slice_set(chunk, 0, start)
    });
    // A backtrace may follow.
    let failed = failed.unwrap_err().to_string();
    assert!(failed.starts_with("slice-set only supports contiguous tensors") && attempts == 1, "{failed}");
    let scalar = Tensor::new(1_u32, &Device::Cpu).unwrap();
    let message = message(|| execute::with::<NoCache>().chunked(&scalar, 3, |_, _, _| ()));
    assert_eq!(message, "dim 0: a value without axes has no items");
}

fn message(refused: impl FnOnce()) -> String {
    *catch_unwind(AssertUnwindSafe(refused)).unwrap_err().downcast().unwrap()
}

#[test]
fn data_on_another_device_is_refused() {
    let run = |device: &dyn MemorySource| {
        let mut chunks = 0;
        execute::with::<NoCache>().device(device).chunked((&rows(4), &rows(4)), 2, |_, _, _| chunks += 1);
        assert_eq!(chunks, 2);
    };
    let host = memory(&Device::Cpu).unwrap();
    run(&*host);
    run(&Named("a device of one's own"));
    let refused = "device cuda:1: the data is on cpu, so give the memory of that";
    assert_eq!(message(|| run(&Named("cuda:1"))), refused);
}

#[test]
fn errors_are_known_by_the_type_inside() {
    let class = |error: Error| error.classify().class;
    let around: [fn(Error) -> Error; 5] = [
        |error| error,
        |error| error.context("step 3"),
        |error| error.with_path("out of memory/weights.safetensors"),
        |error| Error::WithBacktrace {
            inner: Box::new(error),
            backtrace: Box::new(std::backtrace::Backtrace::force_capture()),
        },
        |error| Error::WrappedContext {
            wrapped: Box::new(error),
            context: "CUDA_ERROR_OUT_OF_MEMORY".into(),
        },
    ];
    for outer in around {
        for inner in around {
            let nested = |error| outer(inner(error));
            assert_eq!(class(nested(driver(CUDA_ERROR_OUT_OF_MEMORY))), Class::OutOfMemory);
            assert_eq!(class(nested(driver(CUDA_ERROR_ILLEGAL_ADDRESS))), Class::Poisoned);
            assert_eq!(class(nested(driver(CUresult::CUDA_ERROR_NOT_FOUND))), Class::Other);
            assert_eq!(class(nested(Error::UnwrapNone)), Class::Other);
        }
    }
    let refused = || io::Error::new(io::ErrorKind::OutOfMemory, "no");
    assert_eq!(class(Error::Io(refused()).context("read")), Class::OutOfMemory);
    // Errors wrapped in other errors.
    let boxed = io::Error::other(driver(CUDA_ERROR_OUT_OF_MEMORY).context("load"));
    assert_eq!(classify_error(&boxed).class, Class::OutOfMemory);
}

/// The driver's error of another version of cudarc, which has a type of its own.
#[derive(Debug)]
struct DriverErrorOfAnother;

impl std::fmt::Display for DriverErrorOfAnother {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")")
    }
}

impl std::error::Error for DriverErrorOfAnother {}

#[test]
fn errors_of_unknown_types_are_known_by_their_words() {
    let class = |error: Error| error.classify().class;
    assert_eq!(class(Error::Cuda(Box::new(DriverErrorOfAnother))), Class::OutOfMemory);
    assert_eq!(class(Error::msg("Metal error Failed to create metal resource: Buffer")), Class::OutOfMemory);
    assert_eq!(class(Error::msg("no such model")), Class::Other);
}

/// Needs candle's CUDA, which only nvcc can build: `cargo xtask test card` builds it if nvcc is installed.
#[test]
fn data_that_do_not_fit_on_a_device_are_worked_on_in_pieces() {
    let device = match Device::new_cuda(0) {
        Ok(device) => device,
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("not been built with cuda"), "{error}");
            // Written past the test harness, which captures the output of passing tests.
            let _ = writeln!(io::stderr(), "skipped: candle on CUDA: {error}");
            return;
        }
    };
    let memory = memory(&device).unwrap();
    let numbers = usize::try_from(memory.read().unwrap().free_bytes / 64).unwrap();
    // A row takes a sixteenth of the free bytes.
    let rows = |start, end| Tensor::zeros((end - start, numbers), candle_core::DType::F32, &device);
    let sizes = execute::with::<NoCache>()
        .device(&*memory)
        .map(0..64, 64, |start, end| rows(start, end).map(|_| end - start))
        .unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), 64);
    assert_eq!((memory.name(), report::last().unwrap().out_of_memory > 1), ("cuda:0", true));
}
