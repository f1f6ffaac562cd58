//! Weights that stay in their file, and variables that are saved from wherever they are.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::ground;
use tch::{Kind, Tensor, nn};
use tempfile::TempDir;
use toma_torch::ErrorKind;
use toma_torch::offload::{Lru, Residency};

use crate::kit::{Rule, alone, bits, contents, entered, manager, train};
use crate::nets::{convolutions, perceptron};

fn some() -> Vec<(&'static str, Tensor)> {
    tch::manual_seed(3);
    vec![
        ("half", Tensor::randn([300, 7], ground::floats()).to_kind(Kind::Half)),
        ("large", Tensor::randn([512, 1024], ground::floats())),
        ("none", Tensor::zeros([0, 3], ground::floats())),
        ("numbers", Tensor::arange(1 << 16, (Kind::Int64, ground::device())).reshape([4, -1])),
        ("one", Tensor::from(2.5_f32)),
        ("wide", Tensor::randn([2048, 256], ground::floats())),
    ]
}

/// Writes the tensors to a file, which ends with its folder.
fn written() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.safetensors");
    Tensor::write_safetensors(&some(), &path).unwrap();
    (folder, path)
}

/// Returns the bits of the sum, in the tensor's own kind, because a conversion takes memory.
fn sum(tensor: &Tensor) -> u64 {
    tensor.sum(tensor.kind()).double_value(&[]).to_bits()
}

#[test]
fn weights_are_read_when_they_are_used_in_less_memory_than_the_file_has() {
    let _alone = alone();
    let (_folder, path) = written();
    let expected = some().into_iter().map(|(name, right)| (name, right.size(), right.kind(), sum(&right)));
    let expected: Vec<_> = expected.collect();
    let before = ground::allocated_bytes();
    let (manager, _entered) = entered(before + (5 << 19), Lru);
    ground::reset_peak_allocated_bytes();
    let weights = manager.read_safetensors(&path).unwrap();
    assert_eq!(weights.len(), expected.len());
    assert!(ground::peak_allocated_bytes() - before < 1 << 10, "nothing was read");
    for _ in 0..2 {
        for (name, size, kind, total) in &expected {
            let (_, weight) = weights.iter().find(|(found, _)| found == name).unwrap();
            assert_eq!((&weight.size(), weight.kind()), (size, *kind), "{name}");
            assert_eq!(sum(weight), *total, "{name}");
        }
    }
    assert!(ground::peak_allocated_bytes() - before <= 5 << 19);
    let report = manager.report();
    assert_eq!(report.bytes_out, 0, "what is in the file is not copied out: {report}");
    assert!(report.fetches > 6, "{report}");
    drop(manager);
}

#[test]
fn weights_have_the_bits_of_the_file_and_are_written_apart_from_it() {
    let _alone = alone();
    let (_folder, path) = written();
    let (manager, _entered) = entered(u64::MAX, Lru);
    for ((name, weight), (_, right)) in manager.read_safetensors(&path).unwrap().iter().zip(in_order(&path)) {
        assert_eq!(bits(weight), bits(&right), "{name}");
        let _written = weight.shallow_clone().fill_(3.0);
        let _left = weight.offload();
        assert_eq!(bits(weight), bits(&right.full_like(3.0)), "{name}");
    }
    assert_eq!(bits(&in_order(&path)[0].1), bits(&manager.read_safetensors(&path).unwrap()[0].1));
}

/// Returns the tensors in the order of the file.
fn in_order(path: &Path) -> Vec<(String, Tensor)> {
    let (manager, names) = (manager(Lru), |(name, _): &(String, _)| name.clone());
    let order: Vec<_> = manager.read_safetensors(path).unwrap().iter().map(names).collect();
    let mut tensors = Tensor::read_safetensors(path).unwrap();
    tensors.sort_by_key(|(name, _)| order.iter().position(|one| one == name));
    tensors
}

#[test]
fn a_net_whose_variables_are_in_a_file_learns_the_same() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let net = perceptron();
    net.variables.save(&path).unwrap();
    let expected = train(&net, Rule::Sgd, 2);
    drop(net);
    let (manager, _entered) = entered(ground::allocated_bytes() + (20 << 20), Lru);
    let net = perceptron();
    let variables = net.variables.variables();
    for (name, weight) in manager.read_safetensors(&path).unwrap() {
        variables[&name].shallow_clone().set_data(&weight);
        assert_eq!(manager.adopt(&variables[&name]).residency(), Residency::Offloaded, "{name}");
    }
    assert_eq!(train(&net, Rule::Sgd, 2), expected);
}

#[test]
fn a_file_that_changes_is_an_error_until_the_tensor_is_gone() {
    let _alone = alone();
    let (_folder, path) = written();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let changed = |change: fn(&Path), text: &str| {
        Tensor::write_safetensors(&some(), &path).unwrap();
        let weights = manager.read_safetensors(&path).unwrap();
        let (_, wide) = weights.iter().find(|(name, _)| name == "wide").unwrap();
        change(&path);
        for _ in 0..2 {
            let error = wide.f_sum(Kind::Float).unwrap_err().to_string();
            assert!(error.contains("some.safetensors") && error.contains(text), "{error}");
            assert_eq!(wide.residency(), Residency::Offloaded);
        }
        let error = wide.read(&mut vec![0; 2 << 20]).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        let error = manager.fetch_all().unwrap_err();
        assert!(error.kind() != ErrorKind::OutOfMemory && error.to_string().contains(text), "{error}");
    };
    changed(|path| truncate(path, 1 << 20), "has 1048576 bytes, and had");
    changed(|path| truncate(path, 16 << 20), "has 16777216 bytes, and had");
    changed(write_into, "was written to after it was opened");
}

fn truncate(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn write_into(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"other", 1 << 20).unwrap();
    // The clock of a file system is coarse.
    file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
}

#[test]
fn another_file_in_its_place_changes_nothing() {
    let _alone = alone();
    let (_folder, path) = written();
    let (manager, _entered) = entered(u64::MAX, Lru);
    let weights = manager.read_safetensors(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"another").unwrap();
    let (_, wide) = weights.iter().find(|(name, _)| name == "wide").unwrap();
    assert_eq!(bits(wide), bits(&some()[5].1));
}

#[test]
fn a_file_without_weights_is_refused_by_its_path() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (manager, path) = (manager(Lru), folder.path().join("bad.safetensors"));
    let refused = |path: &Path, text: &str| {
        let error = manager.read_safetensors(path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("weights {}", path.display())), "{error}");
        assert!(error.contains(text), "{error}");
    };
    refused(&path, "No such file");
    refused(folder.path(), "not a file");
    let with = |header: &str, bytes: usize| {
        let mut file = File::create(&path).unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        file.write_all(&vec![0; bytes]).unwrap();
    };
    fs::write(&path, b"short").unwrap();
    refused(&path, "5 bytes are no header");
    fs::write(&path, [0xff; 16]).unwrap();
    refused(&path, "a header of 18446744073709551615 bytes in a file of 16");
    with("[1, 2]", 0);
    refused(&path, "not safetensors");
    let header = r#"{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}"#;
    with(header, 15);
    refused(&path, "a is F32 of [4] in (0, 16)");
    with(&header.replace("[4]", "[5]"), 16);
    refused(&path, "a is F32 of [5] in (0, 16)");
    with(&header.replace("[4]", "[4611686018427387904, 8]"), 16);
    refused(&path, "not safetensors");
    with(header, 16);
    assert_eq!(manager.read_safetensors(&path).unwrap()[0].1.size(), [4]);
}

#[test]
fn variables_are_saved_from_where_they_are_and_load_again() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let before = ground::allocated_bytes();
    let (manager, _entered) = entered(before + (24 << 20), Lru);
    let net = convolutions();
    let _learned = train(&net, Rule::Sgd, 1);
    // A transposed view, and one that starts inside its storage.
    let root = net.variables.root();
    let turned = Tensor::randn([128, 256], ground::floats());
    for (name, view) in [("turned", turned.transpose(0, 1)), ("within", turned.narrow(0, 5, 7))] {
        let mut variable = root.zeros(name, &view.size());
        variable.set_data(&view);
    }
    let expected = contents(&net.variables);
    let handles = manager.adopt_all(&net.variables);
    let left = handles.iter().filter(|one| one.offload().is_ok()).count();
    assert!(left > 3, "{left}");
    let fetches = manager.report().fetches;
    manager.save(&net.variables, &path).unwrap();
    assert!(manager.report().fetches - fetches <= 2, "only for the views");
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["net.safetensors"]);
    let read: Vec<_> = manager.read_safetensors(&path).unwrap();
    assert_eq!(read.len(), expected.len());
    for (name, bits_of) in &expected {
        let (_, tensor) = read.iter().find(|(found, _)| found == name).unwrap();
        assert_eq!(&bits(tensor), bits_of, "{name}");
    }
    let mut other = nn::VarStore::new(ground::device());
    let _weight = other.root().zeros("turned", &[256, 128]);
    other.load(&path).unwrap();
    assert_eq!(contents(&other)[0].1, expected.iter().find(|(name, _)| name == "turned").unwrap().1);
    let gone = folder.path().join("no").join("net.safetensors");
    let error = manager.save(&net.variables, &gone).unwrap_err().to_string();
    assert!(error.contains("net.safetensors") && error.contains("No such file"), "{error}");
}

#[test]
fn a_file_that_several_threads_save_to_is_one_of_theirs_in_whole() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let manager = manager(Lru);
    let store = |number: i32| {
        let store = nn::VarStore::new(ground::device());
        let _ = store.root().var("w", &[1 << (14 + number)], nn::Init::Const(f64::from(number)));
        store
    };
    let failed: Vec<_> = std::thread::scope(|scope| {
        let saves = (0..4).map(|number| {
            let (store, manager, path) = (store(number), manager.clone(), &path);
            scope.spawn(move || (0..20).filter_map(|_| manager.save(&store, path).err()).collect::<Vec<_>>())
        });
        let saves: Vec<_> = saves.collect();
        saves.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{failed:?}");
    let read = Tensor::read_safetensors(&path).unwrap();
    let (_, read) = &read[0];
    let number = read.int64_value(&[0]);
    assert!((0..4).contains(&number), "{number}: one of theirs");
    assert_eq!(read.size(), [1 << (14 + number)]);
    assert!(read.equal(&read.full_like(number)), "all of it is");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}
