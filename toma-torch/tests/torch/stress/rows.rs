//! Rows of numbers, and their expected results.

use std::ops::Range;

use tch::{Kind, TchError, Tensor};

use crate::ground;
use crate::nets::Road;
use crate::stage::size;

/// Numbers in a row.
pub(super) const WIDTH: usize = 256;

/// Number of rows.
pub(super) const ROWS: usize = 64;

/// Makes rows; each element of row n is n.
pub(super) fn numbered() -> Tensor {
    let column = Tensor::arange(size(ROWS), ground::floats()).unsqueeze(1);
    column.expand([size(ROWS), size(WIDTH)], false).contiguous()
}

/// Returns the expected results of these rows.
pub(super) fn plain(rows: Range<usize>) -> Vec<f32> {
    let number = |row| f32::from(u16::try_from(row).unwrap());
    rows.map(|row| number(WIDTH) * (number(row) * number(row) + 1.0)).collect()
}

/// Computes the same with tensors, which takes memory for each number.
pub(super) fn with_tensors(rows: &Tensor, road: Road) -> Result<Tensor, TchError> {
    let more = road.of(road.of(rows.f_mul(rows))?.f_add_scalar(1.0))?;
    road.of(more.f_sum_dim_intlist(1, false, Kind::Float))
}

/// The numbers of a tensor, copied without memory of tensors.
pub(super) fn numbers(tensor: &Tensor) -> Vec<f32> {
    let mut numbers = vec![f32::NAN; tensor.numel()];
    let count = numbers.len();
    tensor.copy_data(&mut numbers, count);
    numbers
}
