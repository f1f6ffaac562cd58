//! Invalid arguments are refused at once, by an error that names the argument and its values.

use std::cell::Cell;
use std::io;

use tch::{Device, Kind, Tensor};
use toma::NoCache;
use toma::execute;
use toma::memory::MemorySource as _;
use toma_torch::cpu::{self, Budget};
use toma_torch::{ErrorKind, RngState};

use crate::ground;
use crate::nets::{self, ROWS, Road};
use crate::stage::{ROW, alone, numbered, panic_of, size};

/// Returns the error of cutting `tensor` along `dim`; the body must not be called.
fn refusal(tensor: &Tensor, dim: isize) -> String {
    panic_of(|| execute::with::<NoCache>().dim(dim).chunked(tensor, 2, |_, _, _| panic!("it was called")))
}

#[test]
fn a_dim_that_is_not_there_is_named_with_those_there_are() {
    let _alone = alone();
    for dim in [2, -3, isize::MAX, isize::MIN] {
        let words = format!("dim {dim}: must be between -2 and 1 for 2 axes");
        assert_eq!(refusal(&numbered(&[4, 3]), dim), words);
    }
    assert_eq!(refusal(&numbered(&[4]), 1), "dim 1: must be between -1 and 0 for 1 axes");
    for dim in [0, -1] {
        assert_eq!(refusal(&Tensor::from(1.0), dim), format!("dim {dim}: a value without axes has no items"));
    }
}

#[test]
fn a_tensor_that_is_not_there_is_refused() {
    let _alone = alone();
    assert_eq!(refusal(&Tensor::new(), 0), "chunked tensor: must be defined");
}

#[test]
fn layouts_without_views_are_refused_with_what_to_do() {
    let _alone = alone();
    let dense = numbered(&[4, 2]);
    let words = refusal(&dense.to_sparse_sparse_dim(2), 0);
    assert_eq!(
        words,
        "chunked tensor: a sparse tensor has no views; loop over a range and use `narrow_copy`"
    );
    for compressed in [dense.to_sparse_csr(None), dense.to_sparse_csc(None)] {
        let words = refusal(&compressed, 0);
        let begin = "chunked tensor: it has no views along dim 0; make it dense and strided first: ";
        assert!(words.starts_with(begin) && words.contains("do not have strides"), "{words}");
    }
}

#[test]
fn without_items_nothing_is_called_and_items_without_elements_are_items() {
    let _alone = alone();
    for (sizes, dim, calls) in
        [([0, 3], 0, 0), ([3, 0], 1, 0), ([0, 0], -1, 0), ([3, 0], 0, 2), ([0, 3], 1, 2)]
    {
        let seen = Cell::new(0);
        let _budget = Budget::new(0);
        execute::with::<NoCache>().dim(dim).chunked(
            &Tensor::zeros(sizes, ground::floats()),
            2,
            |chunk, start, end| {
                assert_eq!(chunk.size()[usize::from(dim != 0)], size(end - start));
                assert_eq!(chunk.numel(), 0);
                seen.set(seen.get() + 1);
            },
        );
        assert_eq!(seen.get(), calls, "{sizes:?} along {dim}");
    }
}

/// Tensors whose elements are not contiguous are cut like any other.
#[test]
fn non_contiguous_tensors_shrink_too() {
    let _alone = alone();
    let wide = numbered(&[1024, 16]);
    let every_second = numbered(&[32, 1024]).slice(0, 0, None, 2);
    for tensor in [wide.transpose(0, 1), every_second, numbered(&[1, 1024]).expand([16, 1024], false)] {
        assert!(tensor.size() == [16, 1024] && (!tensor.is_contiguous()));
        let (mut sizes, mut total) = (Vec::new(), 0.0);
        // A sum of a row in `f64` takes three times the row.
        let budget = Budget::beyond_allocated(13 * ROW);
        execute::with::<NoCache>().chunked(&tensor, 16, |chunk, start, end| {
            sizes.push(end - start);
            total += (chunk + 1.0).sum(Kind::Double).double_value(&[]);
        });
        drop(budget);
        assert_eq!(sizes, [16, 8, 4, 4, 4, 4]);
        assert_eq!(total, (&tensor + 1.0).sum(Kind::Double).double_value(&[]));
    }
}

#[test]
fn an_unwritable_tensor_fails_on_the_first_attempt() {
    let _alone = alone();
    let repeated = Tensor::ones([1, 3], ground::floats()).expand([4, 3], false);
    let learned = Tensor::ones([4, 3], ground::floats()).set_requires_grad(true);
    let words = ["refers to a single memory location", "a view of a leaf Variable that requires grad"];
    for (tensor, words) in [repeated, learned].iter().zip(words) {
        let attempts = Cell::new(0);
        let done = execute::with::<NoCache>().chunked(tensor, 2, |chunk, _, _| {
            attempts.set(attempts.get() + 1);
            chunk.shallow_clone().f_add_(&Tensor::ones([2, 3], ground::floats())).map(drop)
        });
        let error = done.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(attempts.get(), 1);
    }
}

#[test]
fn a_device_that_is_not_there_is_named_with_how_many_there_are() {
    let _alone = alone();
    let devices = [
        (Device::Cuda(9999), "no device cuda:9999: libtorch sees "),
        // An index beyond every device is no device's.
        (Device::Cuda(usize::MAX), "no device cuda:-1: libtorch sees "),
        (Device::Vulkan, "no device vulkan:0: libtorch sees 0 of this kind"),
    ];
    for (device, words) in devices {
        let memory = toma_torch::Device::new(device);
        let errors = [
            memory.stats().unwrap_err(),
            memory.reset_peaks().unwrap_err(),
            RngState::of(device).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::NoDevice);
            assert!(error.to_string().starts_with(words), "{error}");
        }
        let error = memory.read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with(words), "{error}");
        assert_eq!(toma_torch::Device::existing(device).unwrap_err().kind(), ErrorKind::NoDevice);
        assert_eq!(memory.usage(), None);
        // There is no memory to release and no peak to reset.
        memory.release_cached_memory();
        toma::memory::MemorySource::reset_peak(&memory);
    }
}

#[test]
fn a_budget_that_the_model_fills_reports_requested_and_available_bytes() {
    let _alone = alone();
    let net = nets::perceptron();
    let full = cpu::allocated_bytes();
    let _budget = Budget::new(full);
    let rows = |size| net.output(Road::Errors, &(0..size), false);
    let error = execute::with::<NoCache>().batch(ROWS, rows).unwrap_err();
    let words = format!("CPU out of memory: tried to allocate 128 bytes, {full} of {full} are allocated");
    assert!(error.to_string().contains(&words), "{error}");
    assert_eq!(cpu::allocated_bytes(), full);
}

#[test]
fn parts_of_a_whole_that_does_not_fit_are_dropped_with_the_error() {
    use toma_torch::Concatenate as _;
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let _budget = Budget::beyond_allocated(7 * ROW);
    let row = |start, end| Tensor::f_zeros([size(end - start), 1024], ground::floats());
    let whole = execute::with::<NoCache>().map(0..4, 1, row).concatenate(0);
    let error = whole.unwrap_err().to_string();
    assert!(error.contains("tried to allocate 16384 bytes"), "{error}");
    assert_eq!(cpu::allocated_bytes(), before);
}
