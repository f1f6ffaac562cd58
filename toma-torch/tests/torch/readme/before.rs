use tch::{Tensor, nn::ModuleT};

fn embed(images: &Tensor, out: &Tensor, model: &impl ModuleT) {
    for start in (0..images.size()[0]).step_by(512) {
        let length = 512.min(images.size()[0] - start);
        let features = model.forward_t(&images.narrow(0, start, length), false); // panics: out of memory
        out.narrow(0, start, length).copy_(&features);
    }
}
