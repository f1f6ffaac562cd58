//! The operators, one per line.

use tch::{Kind, Tensor};

use super::Answer::{Coupled, CoupledFlags, Flags, Mean, Rows, Sum};
use super::Row;

const NONE: Option<&Tensor> = None;

pub(super) const UNARY: [Row; 47] = [
    ("positive", Rows, |o| o.x.positive() * 1.0),
    ("negative", Rows, |o| -&o.x),
    ("abs", Rows, |o| (&o.x - 0.5).abs()),
    ("acos", Rows, |o| o.x.acos()),
    ("acosh", Rows, |o| (&o.x + 1.5).acosh()),
    ("angle", Rows, |o| o.x.angle() * &o.x),
    ("asin", Rows, |o| o.x.asin()),
    ("asinh", Rows, |o| o.x.asinh()),
    ("atan", Rows, |o| o.x.atan()),
    ("atanh", Rows, |o| o.x.atanh()),
    ("ceil", Rows, |o| o.x.ceil()),
    ("clamp", Rows, |o| o.x.clamp(0.3, 0.6)),
    ("cos", Rows, |o| o.x.cos()),
    ("cosh", Rows, |o| o.x.cosh()),
    ("deg2rad", Rows, |o| o.x.deg2rad()),
    ("digamma", Rows, |o| o.x.digamma()),
    ("erf", Rows, |o| o.x.erf()),
    ("erfc", Rows, |o| o.x.erfc()),
    ("erfinv", Rows, |o| o.x.erfinv()),
    ("exp", Rows, |o| o.x.exp()),
    ("expm1", Rows, |o| o.x.expm1()),
    ("floor", Rows, |o| (&o.x * 9.0).floor()),
    ("frac", Rows, |o| (&o.x * 9.0).frac()),
    ("lgamma", Rows, |o| o.x.lgamma()),
    ("log", Rows, |o| o.x.log()),
    ("log10", Rows, |o| o.x.log10()),
    ("log1p", Rows, |o| o.x.log1p()),
    ("log2", Rows, |o| o.x.log2()),
    ("logit", Rows, |o| o.x.logit(None)),
    ("reciprocal", Rows, |o| o.x.reciprocal()),
    ("round", Rows, |o| (&o.x * 9.0).round()),
    ("rsqrt", Rows, |o| o.x.rsqrt()),
    ("sigmoid", Rows, |o| o.x.sigmoid()),
    ("sign", Rows, |o| (&o.x - 0.5).sign()),
    ("sin", Rows, |o| o.x.sin()),
    ("sinh", Rows, |o| o.x.sinh()),
    ("sqrt", Rows, |o| o.x.sqrt()),
    ("square", Rows, |o| o.x.square()),
    ("tan", Rows, |o| o.x.tan()),
    ("tanh", Rows, |o| o.x.tanh()),
    ("trunc", Rows, |o| (&o.x * 9.0).trunc()),
    ("logical_not", Flags, |o| (&o.x * 2.0).floor().logical_not()),
    ("isnan", Flags, |o| (&o.x - 0.5).sqrt().isnan()),
    ("mean", Mean, |o| o.x.mean(None)),
    ("sum", Sum, |o| o.x.sum(None)),
    ("std", Coupled, |o| o.x.std(true)),
    ("all", CoupledFlags, |o| o.x.gt(0.5).all()),
];

pub(super) const BINARY: [Row; 24] = [
    ("add", Rows, |o| &o.x + &o.y),
    ("subtract", Rows, |o| &o.x - &o.y),
    ("multiply", Rows, |o| &o.x * &o.y),
    ("divide", Rows, |o| &o.x / &o.y),
    ("add a number", Rows, |o| &o.x + 2.0),
    ("number minus", Rows, |o| 2.0 - &o.x),
    ("times a number", Rows, |o| &o.x * 2.0),
    ("number over", Rows, |o| 2.0 / &o.x),
    ("floor_divide", Flags, |o| o.x.floor_divide(&o.y)),
    ("remainder", Rows, |o| (&o.x * 9.0).remainder_tensor(&o.y)),
    ("fmod", Rows, |o| (&o.x * 9.0).fmod_tensor(&o.y)),
    ("power", Rows, |o| o.x.pow(&o.y)),
    ("power of a number", Rows, |o| o.x.pow_tensor_scalar(3)),
    ("number to the power", Rows, |o| Tensor::pow_scalar(2.0, &o.x)),
    ("add a row", Rows, |o| &o.x + &o.vector),
    ("times a row", Rows, |o| &o.x * &o.vector),
    ("atan2", Rows, |o| o.x.atan2(&o.y)),
    ("hypot", Rows, |o| o.x.hypot(&o.y)),
    ("lerp", Rows, |o| o.x.lerp(&o.y, 0.25)),
    ("addcmul", Rows, |o| o.x.addcmul(&o.y, &o.vector)),
    ("matmul with a weight", Rows, |o| o.x.matmul(&o.matrix)),
    ("matmul with a vector", Rows, |o| o.x.matmul(&o.vector)),
    ("matmul of matrices of each row", Rows, |o| o.images().matmul(&o.y.view([-1, 1, 6, 1]))),
    ("matmul of rows with each other", Coupled, |o| o.x.matmul(&o.y.tr())),
];

pub(super) const COMPARISONS: [Row; 8] = [
    ("eq", Flags, |o| o.x.eq_tensor(&o.y)),
    ("ne", Flags, |o| o.x.ne_tensor(&o.y)),
    ("lt", Flags, |o| o.x.lt_tensor(&o.y)),
    ("le", Flags, |o| o.x.le_tensor(&o.y)),
    ("gt", Flags, |o| o.x.gt_tensor(&o.y)),
    ("ge", Flags, |o| o.x.ge_tensor(&o.y)),
    ("gt of a number", Flags, |o| o.x.gt(0.5)),
    ("isclose", Flags, |o| o.x.isclose(&o.y, 0.1, 0.1, false)),
];

/// Minimum and maximum, in each of their forms.
pub(super) const RANGES: [Row; 10] = [
    ("minimum", Rows, |o| o.x.minimum(&o.y)),
    ("maximum", Rows, |o| o.x.maximum(&o.y)),
    ("min of each row", Rows, |o| o.x.min_dim(1, false).0),
    ("max of each row", Rows, |o| o.x.max_dim(1, true).0),
    ("amin", Rows, |o| o.x.amin([1_i64].as_slice(), false)),
    ("amax", Rows, |o| o.x.amax([-1_i64].as_slice(), true)),
    ("argmin", Flags, |o| o.x.argmin(1, false)),
    ("argmax", Flags, |o| o.x.argmax(1, true)),
    // Its backward reads the data to look for NaN, and takes another path in a dry run.
    ("max", CoupledFlags, |o| o.x.max()),
    ("min over the rows", Coupled, |o| o.x.min_dim(0, false).0),
];

pub(super) const CASTS: [Row; 6] = [
    ("float", Rows, |o| (&o.x * 8.0).round().to_kind(Kind::Float)),
    ("double", Rows, |o| o.x.to_kind(Kind::Double).square()),
    ("half", Flags, |o| o.x.to_kind(Kind::Half)),
    ("bfloat16", Flags, |o| o.x.to_kind(Kind::BFloat16)),
    ("int", Flags, |o| (&o.x * 9.0).to_kind(Kind::Int)),
    ("bool", Flags, |o| (&o.x * 2.0).floor().to_kind(Kind::Bool)),
];

/// Operators that change shapes, and padding.
pub(super) const SHAPES: [Row; 14] = [
    ("view", Rows, |o| o.x.view([-1, 2, 3]).square()),
    ("view by the batch", Rows, |o| o.x.view([o.x.size()[0], -1]).square()),
    ("reshape", Rows, |o| o.images().reshape([-1, 36]) * 2.0),
    ("flatten", Rows, |o| o.images().flatten(1, -1).square()),
    ("permute", Rows, |o| o.images().permute([0, 3, 1, 2]).exp()),
    ("transpose", Rows, |o| o.images().transpose(-1, -2).matmul(&o.matrix)),
    ("squeeze and unsqueeze", Rows, |o| o.x.unsqueeze(1).square().squeeze_dim(1)),
    ("expand", Rows, |o| o.x.unsqueeze(1).expand([-1, 4, 6], false) + 1.0),
    ("cat", Rows, |o| Tensor::cat(&[&o.x, &o.y], 1)),
    ("stack", Rows, |o| Tensor::stack(&[&o.x, &o.y], 1)),
    ("select", Rows, |o| o.x.select(1, 2).square()),
    ("pad with zeros", Rows, |o| o.x.constant_pad_nd([1, 2])),
    ("pad by reflection", Rows, |o| o.images().pad([1, 1, 2, 2], "reflect", None)),
    ("transpose of the rows", Coupled, |o| o.x.tr().softmax(-1, None)),
];

pub(super) const LAYERS: [Row; 16] = [
    ("Linear", Rows, |o| o.x.linear(&o.matrix, Some(&o.vector))),
    ("BatchNorm", Rows, |o| normal(o, false)),
    ("BatchNorm in training", Coupled, |o| normal(o, true).square().mean(None).sqrt()),
    ("LayerNorm", Rows, |o| o.x.layer_norm([6], Some(&o.vector), NONE, 1e-5, false)),
    ("Dropout", Rows, |o| o.x.dropout(0.5, false) * 1.0),
    ("Dropout in training", CoupledFlags, |o| o.x.dropout(0.5, true)),
    ("ReLU", Rows, |o| (&o.x - 0.5).relu()),
    ("LeakyReLU", Rows, |o| (&o.x - 0.5).leaky_relu()),
    ("Sigmoid", Rows, |o| o.x.linear(&o.matrix, NONE).sigmoid()),
    ("Softmax", Rows, |o| o.x.softmax(-1, None)),
    ("Softmax along the batch", Coupled, |o| o.x.softmax(0, None).square()),
    ("Conv", Rows, |o| o.images().conv2d(&o.matrix.view([2, 1, 3, 6]), NONE, 1, 1, 1, 1)),
    ("ConvTranspose", Rows, |o| {
        o.images().conv_transpose2d(&o.matrix.view([1, 4, 3, 3]), NONE, 1, 0, 0, 1, 1)
    }),
    ("MaxPool", Rows, |o| o.images().max_pool2d(2, 2, 0, 1, false)),
    ("AvgPool", Rows, |o| o.images().avg_pool2d(3, 1, 1, false, true, None)),
    ("Embedding", Rows, |o| Tensor::embedding(&o.matrix, &o.words(), -1, false, false)),
];

fn normal(o: &super::Operands, trains: bool) -> Tensor {
    let (mean, variance) = (o.vector.detach().copy(), o.vector.detach().copy());
    o.x.batch_norm(Some(&o.vector), NONE, Some(&mean), Some(&variance), trains, 0.1, 1e-5, false)
}
