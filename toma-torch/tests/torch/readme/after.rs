use tch::nn::{self, ModuleT, VarStore};
use tch::{Device, Kind, Tensor};
use toma::torch::cpu::Budget;

#[toma::chunked(initial = 512)]
fn embed((images, out): (&Tensor, &Tensor), _start: i64, _end: i64, model: &impl ModuleT) {
    let features = model.forward_t(images, false); // out of memory? once more with half of the images
    out.shallow_clone().copy_(&features);
}

fn main() {
    let variables = VarStore::new(Device::Cpu);
    let layer = |at, from, to| nn::linear(variables.root() / at, from, to, nn::LinearConfig::default());
    let model = nn::seq().add(layer("in", 784, 256)).add_fn(Tensor::relu).add(layer("out", 256, 10));
    let images = Tensor::rand([2000, 784], (Kind::Float, Device::Cpu));
    let out = Tensor::zeros([2000, 10], (Kind::Float, Device::Cpu));

    let _budget = Budget::beyond_allocated(300 << 10); // bytes; on a GPU its memory is the limit
    let _no_grad = tch::no_grad_guard();
    embed((&images, &out), &model);
    println!("{}", toma::report::last().unwrap());
}
