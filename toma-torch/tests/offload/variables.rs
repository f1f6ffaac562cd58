//! Evicted variables: optimizers distinguish them, and tch saves and loads them.

use crate::ground;
use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma_torch::backward_step;
use toma_torch::offload::Lru;

use crate::kit::{alone, bits, contents, entered};

/// Returns weights and losses of four steps of a model whose first variable is a table, the largest of all.
fn trained(before_step: impl Fn(&Tensor)) -> (Vec<u64>, Vec<u32>) {
    tch::manual_seed(5);
    let variables = nn::VarStore::new(ground::device());
    let root = variables.root();
    let table = nn::embedding(&root / "table", 8192, 256, nn::EmbeddingConfig::default());
    let head = nn::linear(&root / "head", 256, 512, nn::LinearConfig::default());
    let mut optimizer = nn::sgd(0.9, 0.0, 0.0, false).build(&variables, 1e-2).unwrap();
    let words = Tensor::arange(64, (Kind::Int64, ground::device()));
    let losses = (0..4).map(|_| {
        before_step(&table.ws);
        let loss = backward_step(&mut optimizer, &words, |words| {
            head.forward(&table.forward(words)).square().mean(Kind::Float)
        });
        loss.double_value(&[]).to_bits()
    });
    (losses.collect(), bits(&table.ws))
}

#[test]
fn a_step_of_evicted_variables_is_taken() {
    let _alone = alone();
    let expected = trained(|_| {});
    let (manager, _entered) = entered(ground::allocated_bytes() + (24 << 20), Lru);
    assert_eq!(trained(|table| manager.adopt(table).offload().unwrap()), expected);
    assert!(manager.report().offloads > 0, "{}", manager.report());
}

/// A store with random weights by `seed`; every second one is large.
fn store(seed: i64) -> nn::VarStore {
    tch::manual_seed(seed);
    let variables = nn::VarStore::new(ground::device());
    for at in 0..6 {
        let _weight = variables.root().randn_standard(&format!("weight{at}"), &[100 << (at % 2 * 6), 10]);
    }
    variables
}

/// tch's own methods run no operator before they read by address.
#[test]
fn half_the_variables_are_evicted_when_they_are_saved_and_loaded() {
    let _alone = alone();
    let folder = std::env::temp_dir();
    let expected = contents(&store(1));
    for format in ["safetensors", "ot"] {
        let file = folder.join(format!("toma-variables-{}.{format}", std::process::id()));
        let (manager, _entered) = entered(u64::MAX / 2, Lru);
        let evicts_half = |variables: &nn::VarStore| {
            for (at, handle) in manager.adopt_all(variables).iter().enumerate() {
                if at % 2 == 1 {
                    handle.offload().unwrap();
                }
            }
            assert_eq!(manager.status().evicted, 3, "{}", manager.status());
        };
        let saved = store(1);
        evicts_half(&saved);
        saved.save(&file).unwrap();
        let mut stream = Vec::new();
        saved.save_to_stream(&mut stream).unwrap();
        drop(saved);
        let mut loaded = store(2);
        evicts_half(&loaded);
        loaded.load(&file).unwrap();
        assert_eq!(contents(&loaded), expected, "{format}");
        let mut loaded = store(3);
        evicts_half(&loaded);
        loaded.load_from_stream(std::io::Cursor::new(stream)).unwrap();
        assert_eq!(contents(&loaded), expected, "a stream");
        let mut loaded = store(4);
        evicts_half(&loaded);
        assert!(loaded.load_partial(&file).unwrap().is_empty());
        assert_eq!(contents(&loaded), expected, "partial, {format}");
        let other = store(5);
        evicts_half(&other);
        drop(loaded.copy(&other));
        std::fs::remove_file(&file).unwrap();
    }
}

/// The budget does not fit half of the variables.
#[test]
fn variables_that_exceed_the_budget_are_saved_and_loaded() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.ot");
    let expected = contents(&store(1));
    let (_manager, _entered) = entered(ground::allocated_bytes() + (600 << 10), Lru);
    let (saved, mut loaded) = (store(1), store(2));
    saved.save(&file).unwrap();
    saved.save(file.with_extension("safetensors")).unwrap();
    loaded.load(file.with_extension("safetensors")).unwrap();
    assert_eq!(contents(&loaded), expected);
    assert!(file.is_file());
}
