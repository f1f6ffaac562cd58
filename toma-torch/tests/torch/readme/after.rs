use tch::{Tensor, nn::ModuleT};

#[toma::chunked(initial = 512)]
fn embed((images, out): (&Tensor, &Tensor), _start: i64, _end: i64, model: &impl ModuleT) {
    let features = model.forward_t(images, false); // out of memory? once more with half of the images
    out.shallow_clone().copy_(&features);
}
