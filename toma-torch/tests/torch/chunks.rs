//! Tensors in chunks: views along any dim of any tensor.

use tch::{Kind, TchError, Tensor};
use toma::NoCache;
use toma::execute;
use toma_torch::Concatenate as _;

use crate::ground::{self, Budget};
use crate::stage::{ROW, alone, numbered, panic_of, rows, size};

#[test]
fn chunks_are_views_that_share_storage_along_any_dim() {
    let _alone = alone();
    for (dim, shape) in [(0, [5, 4]), (1, [4, 5]), (-1, [4, 5]), (-2, [5, 4])] {
        let tensor = Tensor::zeros(shape, ground::floats());
        let mut seen = Vec::new();
        execute::with::<NoCache>().dim(dim).chunked(&tensor, 2, |chunk, start, end| {
            seen.push((start, end));
            let _ = chunk.shallow_clone().fill_(1.0 + f64::from(u32::try_from(start).unwrap()));
        });
        assert_eq!(seen, [(0, 2), (2, 4), (4, 5)]);
        assert_eq!(
            tensor.sum(Kind::Float).double_value(&[]),
            4.0 * (1.0 + 1.0 + 3.0 + 3.0 + 5.0),
            "dim {dim}"
        );
    }
}

#[test]
fn owned_and_mutable_tensors_and_tuples_with_slices() {
    let _alone = alone();
    let mut sums = [0.0; 6];
    let input = numbered(&[6, 2]);
    execute::chunked((&input, &mut sums[..]), 4, |(chunk, sums), _, _| {
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = chunk.get(size(row)).sum(Kind::Double).double_value(&[]);
        }
    });
    assert_eq!(sums, [1.0, 5.0, 9.0, 13.0, 17.0, 21.0]);
    let mut output = Tensor::zeros([6, 2], ground::floats());
    execute::chunked((&input, &mut output), 4, |(from, to), _, _| to.shallow_clone().copy_(from));
    assert_eq!(output, input);
    let mut chunks = 0;
    execute::chunked(input, 4, |_, _, _| chunks += 1);
    assert_eq!(chunks, 2);
}

#[toma::chunked(initial = 4, dim = -1, cache = NoCache)]
fn fill(out: &Tensor, start: usize, end: usize, more: f64) {
    assert_eq!(size(end - start), out.size()[1]);
    let _ = out.shallow_clone().fill_(more);
}

#[toma::chunked(initial = 4, cache = NoCache)]
fn square(data: &Tensor, start: i64, end: i64, sizes: &mut Vec<i64>) -> Result<(), TchError> {
    sizes.push(end - start);
    let squared = data.f_square()?;
    data.shallow_clone().copy_(&squared);
    Ok(())
}

#[toma::batch(initial = 8, cache = NoCache)]
fn embed(batch_size: usize) -> Tensor {
    rows(batch_size)
}

#[test]
fn attributes_take_tensors_and_return_them() {
    let _alone = alone();
    let tensor = Tensor::zeros([2, 10], ground::floats());
    fill(&tensor, 3.0);
    assert_eq!(tensor.sum(Kind::Float).double_value(&[]), 60.0);
    let (rows, mut sizes) = (rows(6) + 3.0, Vec::new());
    let budget = Budget::beyond_allocated(3 * ROW);
    square(&rows, &mut sizes).unwrap();
    assert_eq!(sizes, [4, 2, 2, 2]);
    assert_eq!(embed().size(), [2, 1024]);
    drop(budget);
    assert_eq!(rows.double_value(&[5, 7]), 9.0);
}

#[test]
fn map_concatenates_in_order_along_any_dim() {
    let _alone = alone();
    let input = numbered(&[10, 3]);
    let _budget = Budget::beyond_allocated(120 + 2 * 40);
    for (dim, input) in [(0, input.shallow_clone()), (-1, input.transpose(0, 1))] {
        // Multiplies to make a copy, because a view needs no memory.
        let part = |start, end| input.f_narrow(dim, size(start), size(end - start))?.f_mul_scalar(1.0);
        let whole = execute::with::<NoCache>().map(0..10, 10, part).concatenate(dim);
        assert_eq!(whole.unwrap(), input);
    }
}

#[test]
fn parts_that_do_not_fit_together_are_an_error_or_a_panic_with_the_dim() {
    let _alone = alone();
    let odd = || vec![numbered(&[2, 2]), numbered(&[2, 3])];
    let parts: Result<Vec<Tensor>, TchError> = Ok(odd());
    assert!(parts.concatenate(0).is_err());
    let text = panic_of(|| drop(odd().concatenate(0)));
    assert!(text.contains("concatenate 2 tensors along dim 0"), "{text}");
    let text = panic_of(|| drop(Vec::<Tensor>::new().concatenate(0)));
    assert!(text.contains("concatenate 0 tensors"), "{text}");
    let failed: Result<Vec<Tensor>, TchError> = Err(TchError::Torch("first".to_owned()));
    assert!(failed.concatenate(0).unwrap_err().to_string().contains("first"));
}

#[test]
fn a_dim_that_is_not_there_is_the_same_error_for_one_part_as_for_two() {
    let _alone = alone();
    let text = |count, sizes: &[i64], dim| {
        let parts: Result<Vec<Tensor>, TchError> = Ok((0..count).map(|_| numbered(sizes)).collect());
        let error = parts.concatenate(dim).unwrap_err().to_string();
        // The rest is a backtrace.
        error.lines().next().unwrap().to_owned()
    };
    for dim in [2, -3, i64::MAX, i64::MIN] {
        assert_eq!(text(1, &[2, 3], dim), text(2, &[2, 3], dim), "dim {dim}");
    }
    for dim in [0, -1] {
        assert_eq!(text(1, &[], dim), text(2, &[], dim), "dim {dim}");
    }
    let part = numbered(&[2, 3]);
    for dim in -2..2 {
        let whole = vec![part.shallow_clone()].concatenate(dim);
        assert_eq!(whole.data_ptr(), part.data_ptr(), "one part is not copied");
    }
}
