//! What is alive on a device, and what an expression takes there, against libtorch's own counters.

use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, Tensor};
use toma::assert_peak;
use toma_torch::Device;
use toma_torch::profile::{Stocktaking, inventory};
use toma_trace::Place;

use crate::table::{Check, Needs, printed_by};

pub(crate) const CHECKS: &[Check] = &[
    Check {
        name: "profile: an inventory has memlab's and the allocator's figures",
        needs: Needs::Libtorch,
        run: of_linear,
    },
    Check { name: "profile: flattened weights are one storage", needs: Needs::Libtorch, run: of_lstm },
    Check {
        name: "profile: a bound on a step holds to the byte of the counters",
        needs: Needs::Libtorch,
        run: bounded,
    },
];

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

/// Elements of what has a name, its bytes, and those of all rows, which must be the allocator's.
fn figures(stocktaking: Stocktaking) -> [u64; 3] {
    let place = Place::device("cuda", 0);
    let taken = stocktaking.device(GPU).take().unwrap();
    let used = taken.used_bytes(&place);
    assert_eq!(used, Device::new(GPU).stats().unwrap().allocated_bytes, "{taken:#}");
    let named = taken.items().iter().filter(|item| item.shape.is_some());
    [taken.elements(&place), named.map(toma_trace::holdings::Item::used_bytes).sum(), used]
}

fn linear() -> (VarStore, nn::Linear, Tensor) {
    let variables = VarStore::new(GPU);
    let layer = nn::linear(variables.root(), 1024, 1024, nn::LinearConfig::default());
    (variables, layer, Tensor::ones([512, 1024], FLOATS))
}

fn of_linear() -> String {
    let (variables, layer, input) = linear();
    let loss = layer.forward(&input).mean(Kind::Float);
    let take = || inventory().variables(&variables).tensor("input", &input).tensor("loss", &loss);
    let [elements, bytes, _] = figures(take());
    assert_eq!([elements, bytes], [1_573_889, 6_296_064]);
    loss.backward();
    let [elements, bytes, all] = figures(take());
    assert_eq!([elements, bytes], [2_623_489, 10_494_464]);
    format!("{bytes} bytes of {all} have names")
}

fn of_lstm() -> String {
    let variables = VarStore::new(GPU);
    let _lstm = nn::lstm(variables.root(), 1024, 1024, nn::RNNConfig::default());
    let taken = inventory().variables(&variables).take().unwrap();
    let rows = taken.items().iter().filter(|item| item.shape.is_some()).count();
    let [elements, bytes, _] = figures(inventory().variables(&variables));
    assert_eq!([elements, bytes], [8_396_800, 33_587_200]);
    format!("{rows} rows")
}

fn bounded() -> String {
    let (_variables, layer, input) = linear();
    let step = || layer.forward(&input).relu().mean(Kind::Float).backward();
    // Gradients, and the workspace of cuBLAS.
    step();
    let device = Device::new(GPU);
    let before = device.stats().unwrap().allocated_bytes;
    device.reset_peaks().unwrap();
    step();
    let peak = device.stats().unwrap().peak_allocated_bytes - before;
    assert_peak!(peak, step());
    let mut exceeds = false;
    let printed = printed_by(|| {
        exceeds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_peak!(peak - 1, step())))
            .is_err();
    });
    assert!(exceeds && printed == 1, "{peak} bytes are not exceeded");
    format!("{peak} bytes")
}
