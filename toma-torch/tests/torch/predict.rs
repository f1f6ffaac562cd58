//! Predictions from small dry runs equal the bytes that a step takes.

use tch::{Device, Kind, Tensor};
use toma_torch::{Prediction, predict};

use crate::ground::{self, Budget, peak_of};
use crate::nine::{self, Learner};
use crate::rounds::rounds;
use crate::stage::{alone, caught, device, panic_of, predicted, printed, report, size};

fn of(net: &Learner) -> Prediction {
    predict(device(), |size| net.step(size)).unwrap()
}

/// Returns the peak bytes beyond those before while pieces run one after the other and their losses are held.
pub(crate) fn counted(net: &Learner, rows: usize, pieces: usize) -> u64 {
    net.forget_gradients();
    let peak = peak_of(|| drop((0..pieces).map(|_| net.step(rows)).collect::<Vec<_>>()));
    net.forget_gradients();
    peak
}

#[test]
fn nine_nets_take_the_predicted_bytes() {
    let _alone = alone();
    nine::each(|net| {
        let prediction = of(net);
        for pieces in [1, 2, 3] {
            let (predicted, counted) =
                (prediction.needs_bytes_for(48, 48 * pieces), counted(net, 48, pieces));
            // Scratch differs by processor.
            let off = predicted.abs_diff(counted);
            println!("{:>34}, {pieces} pieces: {predicted:>9} of {counted:>9} bytes", net.name);
            assert!(off * 50 < counted, "{}: {off} of {counted} bytes", net.name);
        }
    });
}

/// Returns true if a step of this many rows stays within a budget beyond the allocated bytes.
fn works(net: &Learner, rows: usize, budget: u64) -> bool {
    net.forget_gradients();
    let _budget = Budget::beyond_allocated(budget);
    let works = caught(|| net.step(rows)).map(drop);
    let is_out_of_memory = works.as_ref().is_err_and(|text| text.contains("CPU out of memory"));
    assert!(works.is_ok() || is_out_of_memory, "{works:?}");
    works.is_ok()
}

#[test]
fn any_budget_is_used_to_95_percent_and_never_exceeded() {
    let _alone = alone();
    let mut random = fastrand::Rng::with_seed(11);
    printed(|| {
        nine::each(|net| {
            let prediction = of(net);
            for _ in 0..rounds(48, 112) {
                // A convolution of one image runs another kernel.
                let range = prediction.needs_bytes(5)..prediction.needs_bytes(56);
                let budget = random.u64(range);
                let size = prediction.fits(budget).unwrap();
                assert!(works(net, size, budget), "{}: {size} of {budget}", net.name);
                // One more item may need more than the head-room.
                let too_many = size * 100 / 95 + 2;
                assert!(!works(net, too_many, budget), "{}: {too_many} of {budget}", net.name);
            }
        });
    });
}

#[test]
fn memory_that_grows_with_the_square_shows_at_a_third_size() {
    let _alone = alone();
    let input = Tensor::ones([64, 8], ground::floats());
    let step = |rows: usize| {
        let rows = input.narrow(0, 0, size(rows));
        rows.matmul(&rows.transpose(0, 1)).sum(Kind::Float)
    };
    let prediction = predict(device(), step).unwrap();
    let exact = 32 * 32 * 4 + 4;
    assert!(prediction.needs_bytes(32) < exact);
    assert!(prediction.confirm(32, step).unwrap().needs_bytes(32) >= exact);
}

/// Forms confirm the size that they chose, so that scratch which grows in steps is exact there.
#[test]
fn a_confirmed_size_is_at_most_half_a_percent_too_low() {
    let _alone = alone();
    nine::each(|net| {
        for rows in [23, 48] {
            let prediction = of(net).confirm(rows, |size| net.step(size)).unwrap();
            let (predicted, counted) = (prediction.needs_bytes(rows), counted(net, rows, 1));
            println!("{:>34}, {rows} rows: {predicted:>9} of {counted:>9} bytes", net.name);
            assert!(predicted + counted / 200 >= counted, "{}: {predicted} of {counted} bytes", net.name);
            assert!(predicted <= counted + counted / 50, "{}: {predicted} of {counted} bytes", net.name);
        }
    });
}

type Loss = fn(&Tensor) -> Tensor;

#[test]
fn rows_that_see_each_other_are_found_and_no_others() {
    let _alone = alone();
    nine::each(|net| {
        let rows = of(net).rows().unwrap();
        assert_eq!(rows.combined.err(), None, "{}", net.name);
        assert_eq!(rows.batch_statistics.is_empty(), !net.name.contains("norm"), "{}", net.name);
    });
    let input = Tensor::ones([64, 8], ground::floats());
    let weight = Tensor::ones([8, 8], ground::floats()).set_requires_grad(true);
    let losses: [(&str, Loss); 6] = [
        ("aten::sub.Tensor", |x| (x - x.mean_dim(0, true, Kind::Float)).square().sum(Kind::Float)),
        ("aten::_softmax", |x| x.softmax(0, Kind::Float).sum(Kind::Float)),
        ("aten::mm", |x| x.matmul(&x.transpose(0, 1)).sum(Kind::Float)),
        ("aten::sqrt", |x| x.square().mean(Kind::Float).sqrt()),
        ("aten::native_layer_norm", |x| {
            let (turned, none) = (x.transpose(0, 1), None::<&Tensor>);
            turned.layer_norm([turned.size()[1]], none, none, 1e-5, false).sum(Kind::Float)
        }),
        ("aten::convolution", |x| {
            let (turned, kernel) =
                (x.transpose(0, 1).unsqueeze(0), Tensor::ones([2, 8, 3], ground::floats()));
            turned.conv1d(&kernel, None::<&Tensor>, 1, 1, 1, 1).sum(Kind::Float)
        }),
    ];
    for (operator, loss) in losses {
        let step = |rows: usize| loss(&input.narrow(0, 0, size(rows)).matmul(&weight)).backward();
        let rows = predict(device(), step).unwrap().rows().unwrap();
        assert_eq!(rows.combined.err().map(|coupled| coupled.name).as_deref(), Some(operator));
    }
}

#[test]
fn it_explains_itself() {
    let _alone = alone();
    let weight = Tensor::ones([16, 4], ground::floats());
    let prediction = predict(device(), |rows| {
        let output = Tensor::ones([size(rows), 16], ground::floats()).matmul(&weight);
        assert!(output.double_value(&[0, 0]) > 0.0);
        output
    });
    assert_eq!(
        prediction.unwrap().explain(),
        "\
cpu, from dry runs of 4 and 8 items
  a piece takes 0 bytes + 80 bytes per item
  the first leaves 0 bytes + 16 bytes per item, each further one 0 bytes + 16 bytes per item
  peak of 8: 640 bytes in aten::mm, held by
       512 bytes  aten::ones (0 bytes + 64 bytes per item)
       128 bytes  aten::mm (0 bytes + 16 bytes per item)
         items  bytes
             1  80 bytes
             4  320 bytes
            16  1.2 KiB
            64  5.0 KiB
           256  20.0 KiB
          1024  80.0 KiB
  aten::_local_scalar_dense depends on data: taken at 1, or at the most there can be
",
    );
}

#[test]
fn strange_steps_have_stated_answers() {
    let _alone = alone();
    let weight = Tensor::ones([16, 4], ground::floats());
    let constant = predict(device(), |_| weight.sum(Kind::Float)).unwrap();
    assert_eq!(
        (constant.needs_bytes(1), constant.needs_bytes(1_000_000), constant.fits(1 << 20)),
        (4, 4, Some(usize::MAX))
    );
    let nothing = predict(device(), |_| ()).unwrap();
    assert_eq!((nothing.needs_bytes(7), nothing.fits(0)), (0, Some(usize::MAX)));
    let gpu = toma_torch::Device::new(Device::Cuda(0));
    let elsewhere = predict(&gpu, |size| Tensor::ones([self::size(size)], ground::floats())).unwrap_err();
    assert_eq!(elsewhere.to_string(), "predict: the step makes no memory on cuda:0, but on host");
    let branches =
        predict(device(), |size| if size > 4 { weight.relu() } else { weight.tanh() }).unwrap_err();
    assert_eq!(
        branches.to_string(),
        "predict: operator 0 is `aten::tanh` at size 4, but `aten::relu` at size 8"
    );
    let failing = predict(device(), |size| weight.f_narrow(0, 0, self::size(size) * 4)).unwrap_err();
    assert!(failing.to_string().starts_with("dry run of 8 items: "), "{failing}");
    let panicking = panic_of(|| drop(predict(device(), |size| assert!(size < 8, "the stress test"))));
    assert_eq!(panicking, "the stress test");
}

/// `range` holds no values, so a body that returned its rows to `predict` needs less memory there than in `map`.
#[test]
fn a_body_that_returned_a_tensor_is_predicted_in_a_loop_that_holds_none() {
    let _alone = alone();
    let data = Tensor::ones([4096, 256], (Kind::Float, ground::device()));
    let rows = |from: usize, to: usize| data.narrow(0, size(from), size(to - from)).tanh().square();
    let prediction = predict(device(), |size| rows(0, size)).unwrap();
    // All rows of the result are 4 MiB.
    let budget = Budget::new(ground::allocated_bytes() + (3 << 20));
    predicted().predict(&prediction).range(0..4096, 4096, |from, to| drop(rows(from, to)));
    let report = report();
    assert_eq!((report.out_of_memory, report.attempts), (0, 3), "{report}");
    assert_eq!(report.predicted.map(|predicted| predicted.size), prediction.fits(3 << 20), "{report}");
    drop(budget);
}

#[test]
fn a_head_room_is_left_free() {
    let _alone = alone();
    let prediction = predict(device(), |size| Tensor::ones([self::size(size)], ground::floats()));
    let prediction = prediction.unwrap();
    assert_eq!(prediction.fits(4000), Some(990));
    assert_eq!(prediction.fits_for(10_000, 4000), None);
}
