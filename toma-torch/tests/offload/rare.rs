//! Operators that nets rarely use, and random programs, with all or random storages evicted after each operator.

use crate::ground;
use fastrand::Rng;
use tch::{Kind, Reduction, Tensor};
use toma_torch::offload::{Eviction, Genoa, Situation};

use crate::kit::{alone, bits, entered};
use crate::rounds::rounds;

type Program = (&'static str, fn() -> Vec<Tensor>);

fn ramp(sizes: &[i64]) -> Tensor {
    let count = sizes.iter().product::<i64>();
    Tensor::arange(count, ground::floats()).reshape(sizes) * 0.01 - 0.3
}

fn index(of: &[i64]) -> Tensor {
    Tensor::from_slice(of).to_device(ground::device())
}

const PROGRAMS: &[Program] = &[
    ("views in place", || {
        let x = ramp(&[4, 6]);
        let _ = x.narrow(1, 1, 2).fill_(2.0);
        let _ = x.select(0, 1).g_add_scalar_(1.0);
        vec![x.transpose(0, 1).contiguous(), x]
    }),
    ("index_put", || vec![ramp(&[5, 3]).index_put(&[Some(index(&[0, 2]))], &ramp(&[2, 3]), true)]),
    ("sort", || {
        let (values, order) = ramp(&[3, 7]).sin().sort(1, true);
        vec![values, order]
    }),
    ("topk", || {
        let (values, order) = ramp(&[3, 7]).cos().topk(3, 1, true, true);
        vec![values, order]
    }),
    ("einsum", || vec![Tensor::einsum("ij,kj->ik", &[ramp(&[3, 4]), ramp(&[5, 4])], None::<&[i64]>)]),
    ("out=", || {
        let out = Tensor::zeros([3, 5], ground::floats());
        let _ = ramp(&[3, 4]).matmul_out(&out, &ramp(&[4, 5]));
        vec![out]
    }),
    ("out= that resizes", || {
        let out = Tensor::zeros([0], ground::floats());
        let _ = ramp(&[3, 4]).cumsum_out(&out, 1, Kind::Float);
        vec![out]
    }),
    ("set_", || {
        let mut x = Tensor::zeros([2], ground::floats());
        let y = ramp(&[6]);
        let _ = x.set_source_tensor(&y);
        let _ = x.g_mul_scalar_(2.0);
        vec![x, y]
    }),
    ("resize_", || {
        let mut x = ramp(&[2, 3]);
        let _ = x.resize_([4, 5]).fill_(1.5);
        vec![x]
    }),
    ("conv_transpose", || {
        let weight = ramp(&[2, 3, 3, 3]).set_requires_grad(true);
        let y = ramp(&[1, 2, 5, 5]).conv_transpose2d(&weight, None::<Tensor>, 2, 1, 0, 1, 1);
        y.sum(Kind::Float).backward();
        vec![y, weight.grad()]
    }),
    ("sparse", || {
        let x = Tensor::sparse_coo_tensor_indices_size(
            &index(&[0, 1, 2, 1]).reshape([2, 2]),
            &ramp(&[2]),
            [3, 3],
            ground::floats(),
            false,
        );
        let y = x.coalesce();
        vec![y.mm(&ramp(&[3, 3])), (y + &x).to_dense(None, false)]
    }),
    ("dense to sparse", || {
        let x = ramp(&[4, 4]);
        let sparse = x.to_sparse(None, None::<&[i64]>, None);
        vec![sparse.matmul(&x), sparse.to_dense(None, false)]
    }),
    ("compressed rows", || {
        let dense = ramp(&[4, 4]).relu();
        let rows = dense.to_sparse_csr(None);
        vec![rows.to_dense(None, false), rows.matmul(&ramp(&[4, 2]))]
    }),
    ("embedding_bag", || {
        let (bags, ..) = Tensor::embedding_bag(
            &ramp(&[10, 3]),
            &index(&[1, 2, 4, 5]),
            &index(&[0, 2]),
            false,
            0,
            false,
            None::<Tensor>,
            false,
        );
        vec![bags]
    }),
    ("sparse gradients", || {
        let table = ramp(&[10, 3]).set_requires_grad(true);
        Tensor::embedding(&table, &index(&[1, 2, 1]), -1, false, true).sum(Kind::Float).backward();
        vec![table.grad().to_dense(None, false)]
    }),
    ("fft", || vec![Tensor::view_as_real(&ramp(&[8]).fft_rfft(None::<i64>, -1, "ortho"))]),
    ("complex", || {
        let x = ramp(&[4, 4]).fft_fft(None::<i64>, -1, "backward");
        vec![x.abs(), x.conj().resolve_conj().real()]
    }),
    ("unfold", || vec![ramp(&[4, 4]).unfold(0, 3, 2)]),
    ("cat and stack", || {
        vec![Tensor::cat(&[ramp(&[2, 3]), ramp(&[1, 3])], 0), Tensor::stack(&[ramp(&[3]), ramp(&[3])], 1)]
    }),
    ("split and chunk", || ramp(&[7, 2]).split(3, 0).iter().map(|part| part * 2).collect()),
    ("where and masks", || {
        let x = ramp(&[4, 4]);
        let mask = x.gt(0.0);
        vec![x.where_self(&mask, &(-&x)), x.masked_select(&mask), x.masked_fill(&mask, 7.0)]
    }),
    ("gather and scatter", || {
        let at = index(&[0, 2, 1, 1]).reshape([2, 2]);
        let x = ramp(&[2, 3]);
        vec![x.gather(1, &at, false), x.scatter_add(1, &at, &ramp(&[2, 2]))]
    }),
    ("attention", || {
        let x = ramp(&[1, 2, 6, 4]).sin().set_requires_grad(true);
        let y = Tensor::scaled_dot_product_attention(&x, &x, &x, None::<Tensor>, 0.0, true, None, false);
        y.square().sum(Kind::Float).backward();
        vec![y, x.grad()]
    }),
    ("linear algebra", || {
        let x = ramp(&[3, 3]) + Tensor::eye(3, ground::floats()) * 3.0;
        let (q, r) = Tensor::linalg_qr(&x, "reduced");
        vec![Tensor::linalg_inv(&x), q.matmul(&r), Tensor::linalg_det(&x)]
    }),
    ("double backward", || {
        let x = ramp(&[4]).set_requires_grad(true);
        let y = (&x * &x * &x).sum(Kind::Float);
        let first = Tensor::run_backward(&[y], &[&x], true, true).remove(0);
        first.sum(Kind::Float).backward();
        vec![first, x.grad()]
    }),
    ("data and gradient of a leaf", || {
        let x = ramp(&[4]).set_requires_grad(true);
        let mut y = ramp(&[4]).set_requires_grad(true);
        y.set_data(&tch::no_grad(|| &x * 2.0));
        y.square().sum(Kind::Float).backward();
        let _ = y.grad().g_mul_scalar_(0.5);
        vec![y.grad(), y]
    }),
    ("gru", || {
        let cell: Vec<_> = [[12, 3], [12, 4]].iter().map(|sizes| ramp(sizes)).collect();
        let mut state = Tensor::zeros([2, 4], ground::floats());
        for _ in 0..3 {
            state = ramp(&[2, 3]).gru_cell(&state, &cell[0], &cell[1], None::<Tensor>, None::<Tensor>);
        }
        vec![state]
    }),
    ("random", || {
        tch::manual_seed(3);
        vec![
            Tensor::randn([5], ground::floats()),
            ramp(&[9]).dropout(0.5, true),
            Tensor::randperm(6, (Kind::Int64, ground::floats().1)),
        ]
    }),
    ("quantized", || {
        let x = ramp(&[3, 4]).quantize_per_tensor(0.05, 3, Kind::QInt8);
        vec![x.dequantize(), x.int_repr().to_kind(Kind::Float)]
    }),
    ("oneDNN's layout", || {
        let x = ramp(&[1, 3, 4, 4]).to_mkldnn();
        vec![x.relu().to_dense(None, false)]
    }),
    ("halves", || {
        let x = ramp(&[4, 4]).to_kind(Kind::BFloat16);
        vec![x.matmul(&x).to_kind(Kind::Float)]
    }),
    ("lazy copies and expansion", || {
        let x = ramp(&[1, 3]).expand([4, 3], false);
        vec![x.contiguous() * 2, x.sum_dim_intlist(0, false, Kind::Float)]
    }),
    ("losses", || {
        let x = ramp(&[4, 5]).set_requires_grad(true);
        let loss =
            x.cross_entropy_for_logits(&index(&[0, 1, 2, 3])) + x.mse_loss(&ramp(&[4, 5]), Reduction::Sum);
        loss.backward();
        vec![loss.detach(), x.grad()]
    }),
    ("scalars", || {
        let x = ramp(&[6]);
        let most = x.max().double_value(&[]);
        let all: Vec<f32> = Vec::try_from(&x).unwrap();
        vec![x * most, Tensor::from_slice(&all).to_device(ground::device())]
    }),
];

fn results(program: fn() -> Vec<Tensor>) -> Vec<Vec<u32>> {
    program().iter().map(bits).collect()
}

#[test]
fn rare_operators_compute_the_same_with_everything_evicted_after_each() {
    let _alone = alone();
    for &(name, program) in PROGRAMS {
        let expected = results(program);
        let (manager, _entered) = entered(u64::MAX / 2, Genoa);
        assert_eq!(results(program), expected, "{name}");
        assert!(manager.report().offloads > 0, "{name}: {}", manager.report());
    }
}

/// Evicts a random part of the storages after each operator.
struct Random(Rng);

impl Eviction for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn evict(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        self.leave(situation)
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn leave(&mut self, situation: &Situation<'_>) -> Vec<u64> {
        let all = situation.candidates.iter().map(|candidate| candidate.storage);
        all.filter(|_| self.0.bool()).collect()
    }
}

/// Runs a random program of several steps over a few tensors of four rows.
fn random_program(seed: u64) -> Vec<Vec<u32>> {
    let mut draws = Rng::with_seed(seed);
    let mut pool: Vec<_> = (0..4).map(|at| ramp(&[4, 4]) + f64::from(at)).collect();
    let leaf = ramp(&[4, 4]).set_requires_grad(true);
    pool.push(leaf.shallow_clone());
    for _ in 0..20 {
        let x = pool[draws.usize(..pool.len())].shallow_clone();
        let y = pool[draws.usize(..pool.len())].shallow_clone();
        let made = match draws.usize(..14) {
            0 => x.matmul(&y).tanh(),
            1 => &x + &y,
            2 => x.transpose(0, 1),
            3 => x.narrow(0, 1, 2).repeat([2, 1]),
            4 => Tensor::cat(&[x.narrow(0, 0, 1), y.narrow(0, 0, 3)], 0),
            5 => x.softmax(-1, Kind::Float),
            6 => x.detach().copy(),
            7 => {
                let mut x = x.detach();
                // Overlapping views are refused.
                x.f_add_(&y.detach()).unwrap_or_else(|_| y.copy())
            }
            8 => {
                let x = x.detach();
                let _ = x.select(1, 2).fill_(0.5);
                x
            }
            9 => x.index_select(0, &index(&[3, 0, 1, 1])),
            10 => x.gt(0.0).where_self(&x.gt(0.0), &y.gt(1.0)).to_kind(Kind::Float),
            11 => x.reshape([2, 8]).contiguous().reshape([4, 4]),
            12 => x.dropout(0.3, true),
            _ => x.sum_dim_intlist(0, true, Kind::Float).expand([4, 4], false) * 0.1,
        };
        let at = draws.usize(..pool.len());
        pool[at] = made;
    }
    let sum = pool.iter().fold(leaf.sum(Kind::Float), |sum, x| sum + x.sum(Kind::Float));
    // A tensor changed in place after it was saved is an error, as without a manager.
    let _changed = sum.f_backward();
    pool.push(leaf.grad());
    pool.iter().filter(|tensor| tensor.defined()).map(bits).collect()
}

#[test]
fn random_programs_compute_the_same_with_random_storages_evicted() {
    let _alone = alone();
    let seed = || tch::manual_seed(9);
    for round in 0..rounds(250, 10_000) {
        seed();
        let expected = random_program(round);
        let before = ground::allocated_bytes();
        let (manager, _entered) = entered(u64::MAX / 2, Random(Rng::with_seed(round)));
        seed();
        assert_eq!(random_program(round), expected, "program {round}");
        // A failed backward leaves gradients allocated until the next one, as without a manager.
        let logical = ground::allocated_bytes() + manager.status().evicted_bytes;
        assert_eq!(logical, before, "program {round}: {}", manager.status());
        manager.fetch_all().unwrap();
    }
}
