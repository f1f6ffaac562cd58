//! The computation, which is the same as in `benches/peers/compare.py`.

use tch::{Device, Kind, TchError, Tensor};

use crate::forms::number;

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

/// Rows of the input; no world has more.
const ROWS: i64 = 18_000;

/// Rows and columns of the weights.
const WIDTH: i64 = 512;

/// More than any machine has: libtorch refuses it with its own error.
const TOO_MANY_BYTES: i64 = 1 << 50;

/// Rows and the weights that they are multiplied with. Weights are stored packed, and unpacked in each attempt.
pub(crate) struct Layer {
    input: Tensor,
    packed: Tensor,
    last: Tensor,
    expected: Tensor,
}

impl Layer {
    pub(crate) fn new() -> Result<Self, TchError> {
        let input = Tensor::f_arange(ROWS * WIDTH, FLOATS)?.f_sin()?.f_reshape([ROWS, WIDTH])?;
        let waves = (Tensor::f_arange(WIDTH * WIDTH, FLOATS)? * 0.37).f_sin()? * 127.0;
        let packed = waves.f_to_kind(Kind::Int8)?.f_reshape([WIDTH, WIDTH])?;
        let last = (Tensor::f_arange(WIDTH * 64, FLOATS)? * 0.11).f_cos()?.f_reshape([WIDTH, 64])?;
        let mut layer = Self { input, packed, last, expected: Tensor::new() };
        layer.expected = layer.second_half(&layer.first_half(&layer.input)?)?;
        Ok(layer)
    }

    /// The first rows of the input.
    pub(crate) fn input(&self, rows: usize) -> Result<Tensor, TchError> {
        self.input.f_narrow(0, 0, number(rows))
    }

    /// Computes the part before the allocation that may be too large.
    pub(crate) fn first_half(&self, rows: &Tensor) -> Result<Tensor, TchError> {
        let mut weights = self.packed.f_to_kind(Kind::Float)?;
        rows.f_matmul(&weights.f_mul_scalar_(1.0 / 127.0)?)?.f_relu_()
    }

    pub(crate) fn second_half(&self, hidden: &Tensor) -> Result<Tensor, TchError> {
        hidden.f_matmul(&self.last)?.f_sum_dim_intlist(1, false, Kind::Float)
    }

    /// The largest difference of the results from the expected ones.
    pub(crate) fn difference(&self, out: &Tensor) -> Result<f64, TchError> {
        let expected = self.expected.f_narrow(0, 0, out.size()[0])?;
        (out - expected).f_abs()?.f_max()?.f_double_value(&[])
    }
}

/// Fails with libtorch's own error.
pub(crate) fn run_out_of_memory() -> Result<(), TchError> {
    Tensor::f_empty([TOO_MANY_BYTES], (Kind::Uint8, Device::Cpu)).map(drop)
}

pub(crate) fn zeros(rows: usize, columns: i64) -> Result<Tensor, TchError> {
    Tensor::f_zeros([number(rows), columns], FLOATS)
}
