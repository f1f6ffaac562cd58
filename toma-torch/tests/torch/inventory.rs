//! An inventory has one row for each storage, and the rows add up to the bytes that the allocator has counted.

use std::collections::HashSet;
use std::io::Write as _;

use tch::nn::{self, Module as _, OptimizerConfig as _, RNN as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma_torch::ErrorKind;
use toma_torch::cpu;
use toma_torch::profile::{Inventory, Stocktaking, inventory};
use toma_trace::Place;
use toma_trace::holdings::Item;

use crate::ground;
use crate::stage::{alone, in_child, size};

const HOST: Place = Place::HOST;

/// Rows with a name, and their bytes.
fn rows(inventory: &Inventory) -> Vec<(&str, u64)> {
    let named = inventory.items().iter().filter(|item| !item.name.starts_with("unnamed"));
    named.map(|item| (&*item.name, item.bytes)).collect()
}

/// Tensors that are views of others, and where they begin.
fn aliases(inventory: &Inventory) -> Vec<(&str, u64)> {
    let aliases = inventory.items().iter().flat_map(|item| &item.aliases);
    aliases.map(|alias| (&*alias.name, alias.offset)).collect()
}

fn names(inventory: &Inventory) -> Vec<&str> {
    rows(inventory).into_iter().map(|row| row.0).collect()
}

/// Returns the used bytes beyond those of other tests, and the elements, and checks the total with the allocator.
fn figures(before: u64, stocktaking: Stocktaking) -> (u64, u64) {
    let inventory = stocktaking.take().unwrap();
    assert_eq!(inventory.used_bytes(&HOST), cpu::allocated_bytes(), "{inventory:#}");
    (inventory.elements(&HOST), inventory.used_bytes(&HOST) - before)
}

fn store() -> VarStore {
    VarStore::new(Device::Cpu)
}

fn linear(variables: &VarStore) -> nn::Linear {
    nn::linear(variables.root(), 1024, 1024, nn::LinearConfig::default())
}

#[test]
fn a_linear_layer_has_the_figures_of_memlab() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let variables = store();
    let (layer, input) = (linear(&variables), Tensor::ones([512, 1024], ground::floats()));
    let loss = layer.forward(&input).mean(Kind::Float);
    let take = || inventory().variables(&variables).tensor("input", &input).tensor("loss", &loss);
    assert_eq!(figures(before, take()), (1_573_889, 6_295_556));
    loss.backward();
    assert_eq!(figures(before, take()), (2_623_489, 10_493_956));
    let taken = take().take().unwrap();
    assert_eq!(
        rows(&taken),
        [
            ("weight", 4 << 20),
            ("weight.grad", 4 << 20),
            ("input", 2 << 20),
            ("bias", 4096),
            ("bias.grad", 4096),
            ("loss", 4),
        ]
    );
}

#[test]
fn a_saved_tensor_of_a_graph_is_a_row() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let variables = store();
    let (layer, input) = (linear(&variables), Tensor::ones([512, 1024], ground::floats()));
    let loss = layer.forward(&(&input * (&input + 2.0))).mean(Kind::Float);
    let taken =
        inventory().variables(&variables).tensor("input", &input).tensor("loss", &loss).take().unwrap();
    assert_eq!(taken.used_bytes(&HOST) - before, 8_392_708, "{taken}");
    let saved = taken.items().iter().filter(|item| item.shape.is_none() && item.bytes == 2 << 20);
    assert_eq!(saved.map(|item| &*item.name).collect::<Vec<_>>(), ["unnamed"]);
}

#[test]
fn tied_weights_count_once() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let (variables, second) = (store(), store());
    let (layer, input) = (linear(&variables), Tensor::ones([512, 1024], ground::floats()));
    let bias = second.root().sub("1").zeros("bias", &[1024]);
    let loss = input.linear(&layer.ws, layer.bs.as_ref()).linear(&layer.ws, Some(&bias)).mean(Kind::Float);
    loss.backward();
    let take = || {
        let tied = inventory().tensor("1.weight", &layer.ws).variables(&variables).variables(&second);
        tied.tensor("input", &input).tensor("loss", &loss)
    };
    assert_eq!(figures(before, take()), (2_625_537, 10_502_148));
    let taken = take().take().unwrap();
    let expected = ["weight", "weight.grad", "input", "bias", "bias.grad", "1.bias", "1.bias.grad", "loss"];
    assert_eq!(names(&taken), expected, "{taken:#}");
    assert!(aliases(&taken).is_empty(), "{taken:#}");
}

#[test]
fn an_lstm_has_the_totals_of_memlab() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let variables = store();
    let lstm =
        nn::lstm(variables.root(), 1024, 1024, nn::RNNConfig { batch_first: true, ..Default::default() });
    let input = Tensor::ones([10, 10, 1024], ground::floats());
    let take = || inventory().variables(&variables).tensor("input", &input);
    assert_eq!(figures(before, take()), (8_499_200, 33_996_800));
    let (output, nn::LSTMState((h, c))) = lstm.seq(&input);
    output.mean(Kind::Float).backward();
    let take = || take().tensor("output", &output).tensor("h", &h).tensor("c", &c);
    let (elements, bytes) = figures(before, take());
    assert_eq!((elements, bytes), (17_018_880, 68_075_520), "{:#}", take().take().unwrap());
    let taken = take().take().unwrap();
    let weights = ["weight_ih_l0", "weight_ih_l0.grad", "weight_hh_l0", "weight_hh_l0.grad"];
    let biases = ["bias_ih_l0", "bias_ih_l0.grad", "bias_hh_l0", "bias_hh_l0.grad"];
    assert_eq!(names(&taken), [weights, ["input", "output", "h", "c"], biases].concat());
}

/// On CUDA tch flattens the weights by itself.
#[test]
fn flattened_weights_are_aliases_of_what_begins_their_storage() {
    let _alone = alone();
    let variables = store();
    let lstm = nn::lstm(variables.root(), 8, 8, nn::RNNConfig::default());
    let flat = Tensor::zeros([2 * 256 + 2 * 32], ground::floats());
    // The layout that libtorch gives them.
    for (name, at, length) in [
        ("weight_ih_l0", 0, 256),
        ("weight_hh_l0", 256, 256),
        ("bias_ih_l0", 512, 32),
        ("bias_hh_l0", 544, 32),
    ] {
        let mut variable = variables.variables().remove(name).unwrap();
        let piece = flat.narrow(0, at, length).view(variable.size().as_slice());
        tch::no_grad(|| variable.set_data(&piece));
    }
    drop(flat);
    lstm.seq(&Tensor::ones([2, 3, 8], ground::floats())).0.sum(Kind::Float).backward();
    let text = format!("{:#}", inventory().variables(&variables).take().unwrap());
    let expected = "\
weight_ih_l0                                         (32, 8)     2.25K
weight_hh_l0(->weight_ih_l0)                         (32, 8)     0.00B
bias_ih_l0(->weight_ih_l0)                             (32,)     0.00B
bias_hh_l0(->weight_ih_l0)                             (32,)     0.00B
weight_ih_l0.grad                                    (32, 8)     1.00K
weight_hh_l0.grad                                    (32, 8)     1.00K
bias_ih_l0.grad                                        (32,)   128.00B
bias_hh_l0.grad                                        (32,)   128.00B
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_table_is_in_the_layout_of_memlab() {
    if !in_child("inventory::the_table_is_in_the_layout_of_memlab") {
        return;
    }
    let _alone = alone();
    let variables = store();
    let config = nn::LinearConfig { bias: false, ..Default::default() };
    let layer = nn::linear(variables.root() / "net", 256, 512, config);
    let input = Tensor::ones([2, 256], ground::floats());
    let _kept = layer.forward(&input).relu();
    let _more = [Tensor::ones([10], ground::floats()), Tensor::ones([10], ground::floats())];
    let first = input.get(0);
    let scalar = Tensor::from(1.5_f32);
    let empty = Tensor::ones([0, 3], ground::floats());
    let taken = inventory().variables(&variables).tensor("first", &first).tensor("x", &input);
    let taken = taken.tensor("scalar", &scalar).tensor("empty", &empty).take().unwrap();
    let expected = "\
Element type                                            Size  Used MEM
-------------------------------------------------------------------------------
Storage on host
net.weight                                        (512, 256)   512.00K
unnamed                                                          4.00K
x                                                   (2, 256)     2.00K
unnamed (2 storages of 40.00B)                                  80.00B
scalar                                                  (1,)     4.00B
-------------------------------------------------------------------------------
Total Tensors: 131841 \tUsed Memory: 518.08K
The allocated memory on host: 518.08K
-------------------------------------------------------------------------------
";
    assert_eq!(taken.to_string(), expected);
    let aliased = "x                                                   (2, 256)     2.00K\n\
                   first(->x)                                            (256,)     0.00B\n";
    assert!(format!("{taken:#}").contains(aliased), "{taken:#}");
}

#[test]
fn the_parts_of_a_sparse_gradient_follow_their_variable() {
    let _alone = alone();
    let before = cpu::allocated_bytes();
    let variables = store();
    let config = nn::EmbeddingConfig { sparse: true, ..Default::default() };
    let embedding = nn::embedding(variables.root() / "embedding", 1000, 1024, config);
    let words = Tensor::arange(128, (Kind::Int64, Device::Cpu));
    embedding.forward(&words).sum(Kind::Float).backward();
    let taken = inventory().variables(&variables).take().unwrap();
    let [weight, indices, values] =
        ["embedding.weight", "embedding.weight.grad.indices", "embedding.weight.grad.values"];
    assert_eq!(rows(&taken), [(weight, 4_096_000), (indices, 1024), (values, 524_288)], "{taken:#}");
    assert_eq!(taken.used_bytes(&HOST), cpu::allocated_bytes());
    drop(words);
    assert_eq!(cpu::allocated_bytes() - before, 4_096_000 + 1024 + 524_288, "{taken:#}");
}

#[test]
fn parts_of_sparse_tensors_of_each_layout_are_rows() {
    let _alone = alone();
    let dense = Tensor::eye(4, ground::floats());
    for (sparse, parts) in [
        (dense.to_sparse_sparse_dim(2), ["indices", "values"].as_slice()),
        (dense.to_sparse_csr(None), &["crow_indices", "col_indices", "values"]),
        (dense.to_sparse_csc(None), &["ccol_indices", "row_indices", "values"]),
        (dense.to_sparse_bsr([2, 2], None), &["crow_indices", "col_indices", "values"]),
        (dense.to_sparse_bsc([2, 2], None), &["ccol_indices", "row_indices", "values"]),
    ] {
        let taken = inventory().tensor("eye", &sparse).take().unwrap();
        let views = aliases(&taken).into_iter().map(|alias| alias.0);
        let found: HashSet<_> = names(&taken).into_iter().chain(views).map(str::to_owned).collect();
        assert_eq!(found, parts.iter().map(|part| format!("eye.{part}")).collect(), "{taken:#}");
        assert_eq!(taken.used_bytes(&HOST), cpu::allocated_bytes());
    }
}

#[test]
fn a_view_is_no_row_and_stands_for_its_storage_where_it_alone_has_a_name() {
    let _alone = alone();
    let whole = Tensor::ones([10, 10], ground::floats());
    let [row, column] = [whole.get(3), whole.select(1, 2)];
    let shared = inventory().tensor("row", &row).tensor("column", &column).tensor("whole", &whole);
    let shared = shared.take().unwrap();
    assert_eq!(rows(&shared), [("whole", 400)]);
    assert_eq!(aliases(&shared), [("column", 2), ("row", 30)]);
    drop(whole);
    let alone = inventory().tensor("row", &row).take().unwrap();
    assert_eq!(rows(&alone), [("row", 400)]);
    assert_eq!(alone.elements(&HOST), 10);
}

#[test]
fn a_variable_stands_for_its_storage_wherever_it_begins() {
    let _alone = alone();
    let variables = store();
    let mut weight = variables.root().zeros("weight", &[4]);
    let flat = Tensor::zeros([12], ground::floats());
    tch::no_grad(|| weight.set_data(&flat.narrow(0, 4, 4)));
    let taken = inventory().tensor("flat", &flat).variables(&variables).take().unwrap();
    assert_eq!((rows(&taken), aliases(&taken)), (vec![("weight", 48)], vec![("flat", 0)]));
}

#[test]
fn gradients_of_other_tensors_are_rows_if_they_are_leaves() {
    let _alone = alone();
    let leaf = Tensor::ones([5], ground::floats()).set_requires_grad(true);
    let doubled = &leaf * 2.0;
    doubled.sum(Kind::Float).backward();
    let taken = inventory().tensor("leaf", &leaf).tensor("doubled", &doubled).take().unwrap();
    assert_eq!(names(&taken), ["leaf", "leaf.grad", "doubled"], "{taken:#}");
}

#[test]
fn names_that_are_taken_get_a_number_and_gradients_stay_with_theirs() {
    let _alone = alone();
    let stores = [store(), store()];
    let layers = stores.each_ref().map(linear);
    for layer in &layers {
        layer.ws.sum(Kind::Float).backward();
    }
    let other = Tensor::ones([3], ground::floats());
    let taken = inventory().variables(&stores[0]).variables(&stores[1]).variables(&stores[0]);
    let taken = taken.tensor("weight#2", &other).take().unwrap();
    let expected = ["weight", "weight.grad", "weight#2", "weight#2.grad", "bias", "bias#2", "weight#2#2"];
    assert_eq!(names(&taken), expected);
}

#[test]
fn variables_stand_as_they_were_made_frozen_or_not_and_buffers_by_name() {
    let _alone = alone();
    let mut variables = store();
    let root = variables.root();
    let norm = nn::batch_norm1d(&root / "norm", 4, nn::BatchNormConfig::default());
    for name in ["z", "a", "m"] {
        let _ = root.zeros(name, &[4]);
    }
    assert_eq!(norm.running_mean.size(), [4]);
    let expected = ["norm.bias", "norm.weight", "z", "a", "m", "norm.running_mean", "norm.running_var"];
    for is_frozen in [false, true] {
        let taken = inventory().variables(&variables).take().unwrap();
        let mut names = names(&taken);
        names[..2].sort_unstable();
        assert_eq!(names, expected, "frozen: {is_frozen}");
        variables.freeze();
    }
}

#[test]
fn states_of_an_optimizer_are_rows_without_a_name() {
    let _alone = alone();
    let variables = store();
    let layer = linear(&variables);
    let mut optimizer = nn::Adam::default().build(&variables, 1e-3).unwrap();
    let count = |inventory: &Inventory, words: &str| {
        inventory.items().iter().filter(|item| item.name == words).map(|item| item.bytes).sum::<u64>()
    };
    let loss = layer.ws.square().sum(Kind::Float);
    optimizer.backward_step(&loss);
    drop(loss);
    let taken = inventory().variables(&variables).take().unwrap();
    assert_eq!(count(&taken, "unnamed (2 storages of 4.00M)"), 8 << 20, "{taken}");
    assert_eq!(taken.used_bytes(&HOST), cpu::allocated_bytes());
}

#[test]
fn other_elements_than_floats_have_their_bytes() {
    let _alone = alone();
    let floats = Tensor::ones([6, 5], ground::floats());
    let quantized = floats.quantize_per_tensor(0.1, 3, Kind::QUInt8);
    let by_channel = floats.quantize_per_channel(
        &Tensor::ones([6], ground::floats()),
        &Tensor::zeros([6], ground::floats()),
        0,
        Kind::QInt8,
    );
    let complex = Tensor::ones([6, 5], (Kind::ComplexDouble, Device::Cpu));
    let taken = inventory().tensor("q", &quantized).tensor("channels", &by_channel).tensor("c", &complex);
    let taken = taken.take().unwrap();
    assert_eq!(rows(&taken), [("c", 480), ("q", 30), ("channels", 30)]);
    assert_eq!(taken.used_bytes(&HOST), cpu::allocated_bytes(), "its scales are in a row, too");
}

#[test]
fn memory_that_is_not_counted_is_a_row_beside_what_is() {
    let _alone = alone();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[1; 4000]).unwrap();
    let path = file.path().to_str().unwrap();
    let mapped = Tensor::from_file(path, false, 1000, ground::floats());
    let ours = Tensor::ones([7], ground::floats());
    let taken = inventory().tensor("mapped", &mapped).tensor("view", &mapped.get(8)).tensor("ours", &ours);
    let taken = taken.take().unwrap();
    assert_eq!(rows(&taken), [("mapped", 4000), ("ours", 28)]);
    assert_eq!(taken.used_bytes(&HOST), cpu::allocated_bytes() + 4000);
    let counted: Vec<_> =
        taken.items().iter().filter(|item| !item.is_counted).map(|item| &*item.name).collect();
    assert_eq!(counted, ["mapped"]);
}

#[test]
fn tensors_from_before_counting_are_rows_beside_what_is_counted() {
    if !in_child("inventory::tensors_from_before_counting_are_rows_beside_what_is_counted") {
        return;
    }
    let old = Tensor::ones([100], ground::floats());
    let uncounted = inventory().tensor("old", &old).take().unwrap();
    assert_eq!((rows(&uncounted), uncounted.used_bytes(&HOST)), (vec![("old", 400)], 400));
    assert!(!uncounted.to_string().contains("allocated memory"), "{uncounted}");
    cpu::count();
    let (new, _nameless) = (Tensor::ones([10], ground::floats()), Tensor::ones([5], ground::floats()));
    let taken = inventory().tensor("old", &old).tensor("new", &new).take().unwrap();
    assert_eq!(rows(&taken), [("old", 400), ("new", 40)]);
    assert_eq!((taken.used_bytes(&HOST), cpu::allocated_bytes()), (460, 60));
    assert!(taken.to_string().ends_with(&format!(
        "Used Memory: 460.00B\nThe allocated memory on host: 60.00B\n{}\n",
        "-".repeat(79)
    )));
}

#[test]
fn tensors_without_known_memory_are_refused_by_name() {
    let _alone = alone();
    let dense = Tensor::ones([4, 4], ground::floats());
    let shapes = Tensor::from_slice2(&[[3_i64, 4], [2, 4]]);
    let nested =
        Tensor::internal_nested_from_padded(&Tensor::ones([2, 3, 4], ground::floats()), &shapes, false);
    for (tensor, words) in [
        (Tensor::new(), "must be defined"),
        (dense.to_mkldnn(), "has no storage, as of oneDNN's own layout; make it dense first"),
        (nested, "is nested, and has no one shape"),
    ] {
        let error = inventory().tensor("x", &dense).tensor("it", &tensor).take().unwrap_err();
        assert_eq!(error.to_string(), format!("inventory: tensor \"it\": {words}"));
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn a_device_can_be_chosen_and_one_that_is_not_there_is_named() {
    let _alone = alone();
    let tensor = Tensor::ones([4], ground::floats());
    let of = |device| inventory().tensor("x", &tensor).device(device).take();
    assert_eq!(names(&of(Device::Cpu).unwrap()), ["x"]);
    for (device, name) in [(Device::Cuda(9999), "cuda:9999"), (Device::Vulkan, "vulkan:0")] {
        let error = of(device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(
            error.to_string().starts_with(&format!("inventory: no device {name}: libtorch sees ")),
            "{error}"
        );
    }
}

#[test]
fn tensors_of_a_dry_run_have_no_bytes() {
    let _alone = alone();
    let mut bytes = None;
    let dry = toma_torch::dry_run(|| {
        let tensor = Tensor::ones([100], ground::floats());
        let taken = inventory().tensor("x", &tensor).take().unwrap();
        bytes = Some((rows(&taken).iter().map(|row| row.1).sum::<u64>(), taken.used_bytes(&HOST)));
    });
    dry.unwrap();
    assert_eq!(bytes, Some((0, cpu::allocated_bytes())));
}

#[test]
fn taking_an_inventory_changes_nothing() {
    let _alone = alone();
    let variables = store();
    let layer = linear(&variables);
    layer.ws.sum(Kind::Float).backward();
    let stats = || toma_torch::Device::new(Device::Cpu).stats().unwrap();
    let before = stats();
    let trace = toma_torch::record(|| drop(inventory().variables(&variables).take().unwrap()));
    assert_eq!(trace.operators().len(), 0, "{:?}", trace.operators().next());
    assert_eq!(stats(), before);
}

/// A tensor, and the number of its storage.
struct Living {
    tensor: Tensor,
    storage: usize,
}

/// A random program that makes, views, grows and drops tensors.
struct Program {
    random: fastrand::Rng,
    living: Vec<Living>,
    storages: usize,
}

impl Program {
    fn step(&mut self) {
        match self.random.u32(..10) {
            0..=3 => self.make(),
            4..=6 => self.view(),
            7 => self.grow(),
            _ => {
                if !self.living.is_empty() {
                    let index = self.random.usize(..self.living.len());
                    self.living.swap_remove(index);
                }
            }
        }
    }

    fn make(&mut self) {
        let random = &mut self.random;
        let kinds = [Kind::Float, Kind::Half, Kind::Int64, Kind::Bool, Kind::ComplexFloat];
        let kind = kinds[random.usize(..kinds.len())];
        // Few sizes, so that many blocks have the same size; an empty shape and a size of 0 are among them.
        let sizes: Vec<_> = (0..random.usize(..4)).map(|_| size(random.usize(..5))).collect();
        let is_variable = kind == Kind::Float && random.bool();
        let tensor = Tensor::zeros(sizes.as_slice(), (kind, Device::Cpu)).set_requires_grad(is_variable);
        let storage = self.storages;
        self.storages += 1;
        if is_variable {
            (&tensor * 2.0).sum(Kind::Float).backward();
        }
        self.living.push(Living { tensor, storage });
    }

    fn view(&mut self) {
        let Some(of) = (!self.living.is_empty()).then(|| self.random.usize(..self.living.len())) else {
            return;
        };
        let Living { tensor, storage } = &self.living[of];
        let view = match self.random.u32(..4) {
            0 => tensor.detach(),
            1 => tensor.shallow_clone(),
            2 if tensor.numel() > 0 => tensor.detach().reshape(-1).narrow(0, size(tensor.numel()) - 1, 1),
            _ => tensor.unsqueeze(0).transpose(0, -1),
        };
        // A reshape copies a tensor whose elements are not contiguous.
        let storage = if view.numel() > 0 && !shares(&view, tensor) { self.storages } else { *storage };
        self.storages += 1;
        self.living.push(Living { tensor: view, storage });
    }

    fn grow(&mut self) {
        let of = self
            .living
            .iter()
            .position(|living| !living.tensor.requires_grad() && living.tensor.is_contiguous());
        if let Some(index) = of {
            let more = size(self.random.usize(1..200));
            let mut tensor = self.living[index].tensor.shallow_clone();
            let _ = tensor.resize_([more]);
        }
    }

    /// Checks that every named storage is one row, that names are unique, and that the sum is the counted bytes.
    fn check(&mut self) {
        let mut stocktaking = inventory();
        let mut storages = HashSet::new();
        for (index, Living { tensor, storage }) in self.living.iter().enumerate() {
            if self.random.bool() {
                stocktaking = stocktaking.tensor(&format!("t{index}"), tensor);
                if tensor.numel() > 0 {
                    storages.insert(*storage);
                }
            }
        }
        let taken = stocktaking.take().unwrap();
        let known = || taken.items().iter().filter(|item| item.shape.is_some());
        let others = known().filter(|item| item.gradient_of.is_none());
        assert_eq!(others.count(), storages.len(), "{taken:#}");
        let aliases = known().flat_map(|item| &item.aliases).map(|alias| &alias.name);
        let names: Vec<_> = known().map(|item| &item.name).chain(aliases).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{taken:#}");
        let sum: u64 = taken.items().iter().map(Item::used_bytes).sum();
        assert_eq!([sum, taken.used_bytes(&HOST)], [cpu::allocated_bytes(); 2], "{taken:#}");
    }
}

/// Returns true if a view begins among the elements of the tensor that it was made of.
fn shares(view: &Tensor, of: &Tensor) -> bool {
    let [begin, end] =
        [0, of.numel() * of.kind().elt_size_in_bytes()].map(|bytes| of.data_ptr().addr() + bytes);
    (begin..end).contains(&view.data_ptr().addr())
}

#[test]
fn the_sum_is_the_allocators_figure_in_any_program() {
    let _alone = alone();
    for seed in 0..200 {
        let mut program = Program { random: fastrand::Rng::with_seed(seed), living: Vec::new(), storages: 0 };
        for _ in 0..40 {
            program.step();
            program.check();
        }
    }
}
