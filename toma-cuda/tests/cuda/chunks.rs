//! Device slices and views in chunks.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DriverError};
use toma_core::NoCache;
use toma_core::chunk::Chunked;
use toma_core::execute;

use crate::function::Request;
use crate::stage::{with_device, zeros};

fn numbers(count: u8) -> Vec<u8> {
    (0..count).collect()
}

fn panic_of(work: impl FnOnce()) -> String {
    *catch_unwind(AssertUnwindSafe(work)).unwrap_err().downcast().unwrap()
}

#[test]
fn chunks_of_a_slice_and_of_a_view_are_its_parts_in_order() {
    with_device(|_, _, stream| {
        let data = stream.clone_htod(&numbers(10)).unwrap();
        let seen = RefCell::new(Vec::new());
        let see = |chunk: CudaView<'_, u8>, start, end| {
            seen.borrow_mut().push((start, end, stream.clone_dtoh(&chunk).unwrap()));
        };
        let parts = |first: u8| vec![(0, 4, vec![first, first + 1, first + 2, first + 3])];
        execute::chunked(&data, 4, see);
        assert_eq!(seen.borrow()[..1], parts(0));
        assert_eq!(seen.take()[2], (8, 10, vec![8, 9]));
        execute::with::<NoCache>().dim(-1).chunked(data.slice(3..), 4, see);
        assert_eq!(seen.borrow()[..1], parts(3));
        assert_eq!(seen.take()[1], (4, 7, vec![7, 8, 9]));
        execute::chunked(data.slice(2..2), 4, see);
        assert!(seen.take().is_empty());
    });
}

#[test]
fn mutable_chunks_share_the_memory_of_the_whole() {
    with_device(|double, _, stream| {
        let mut data = zeros(stream, 10).unwrap();
        let used = double.ask(Request::UsedBytes);
        execute::chunked(&mut data, 4, |mut chunk: CudaViewMut<'_, u8>, start, end| {
            assert_eq!((chunk.len(), double.ask(Request::UsedBytes)), (end - start, used));
            let number = u8::try_from(start).unwrap();
            stream.memcpy_htod(&vec![number; end - start], &mut chunk).unwrap();
        });
        assert_eq!(stream.clone_dtoh(&data).unwrap(), [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]);
        execute::chunked(data.slice_mut(5..), 2, |mut chunk, _, _| {
            stream.memset_zeros(&mut chunk).unwrap();
        });
        assert_eq!(stream.clone_dtoh(&data).unwrap(), [0, 0, 0, 0, 4, 0, 0, 0, 0, 0]);
    });
}

/// Elements are wider than a byte, and the loop cuts elements, not bytes.
#[test]
fn slices_of_the_device_and_of_the_host_are_cut_together() {
    with_device(|double, device, stream| {
        let input: Vec<f32> = (0..100_u8).map(f32::from).collect();
        let on_device: CudaSlice<f32> = stream.clone_htod(&input).unwrap();
        double.set_total(400 + 100);
        let mut output = vec![0.0_f32; 100];
        let sizes = RefCell::new(Vec::new());
        let done = execute::with::<NoCache>().device(device).chunked(
            (&on_device, &mut output[..]),
            64,
            |(chunk, out), start, end| -> Result<(), DriverError> {
                sizes.borrow_mut().push(end - start);
                let copy = stream.clone_dtod(&chunk)?;
                stream.memcpy_dtoh(&copy, out)
            },
        );
        done.unwrap();
        assert_eq!(output, input);
        assert_eq!(*sizes.borrow(), [64, 32, 16, 16, 16, 16, 16, 16, 4]);
    });
}

#[test]
fn an_axis_that_is_not_there_and_a_range_beyond_the_end_are_named() {
    with_device(|_, _, stream| {
        let mut data = zeros(stream, 4).unwrap();
        for dim in [1, -2] {
            let expected = format!("dim {dim}: must be between -1 and 0 for 1 axes");
            assert_eq!(panic_of(|| _ = (&data).extent(dim)), expected);
            let chunked = || execute::with::<NoCache>().dim(dim).chunked(data.as_view(), 2, |_, _, _| ());
            assert_eq!(panic_of(chunked), expected);
        }
        let expected = "chunk 3..5 of a device slice: must be within 0..4";
        assert_eq!(panic_of(|| _ = (&data).hold(0, 3..5)), expected);
        assert_eq!(panic_of(|| _ = (&mut data).hold(0, 3..5)), expected);
        let unequal = (&data, &[0_u8; 3][..]);
        assert_eq!(
            panic_of(|| execute::chunked(unequal, 2, |_, _, _| ())),
            "chunked tuple: the extents [4, 3] must be equal"
        );
    });
}
