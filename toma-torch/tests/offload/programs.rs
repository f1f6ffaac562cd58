//! Programs as users write them: their results are those of plain tch, or an error that names the tensor.

#![expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "small integers are exact, and elements came from an f32"
)]

use crate::ground;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{CModule, Kind, TchError, Tensor};
use toma_torch::checkpoint;
use toma_torch::offload::{Genoa, Lru, Manager};
use toma_torch::{Error, ErrorKind, ModeGuard};

use crate::kit::{alone, bits, contents, cpu_device, entered, manager, poisoned};

/// Compares a plain run of a program with a run in which everything is evicted after each operator.
fn is_the_same(program: impl Fn(Option<&Manager>) -> Vec<Vec<u32>>) {
    let plain = program(None);
    let (manager, guard) = entered(u64::MAX / 2, Genoa);
    assert_eq!(program(Some(&manager)), plain);
    assert!(manager.report().offloads > 0, "{}", manager.report());
    drop(guard);
    manager.fetch_all().unwrap();
}

fn ramp(size: i64) -> Tensor {
    Tensor::arange(size, ground::floats()) * 1e-2
}

fn net(variables: &nn::VarStore) -> nn::Sequential {
    let root = variables.root();
    nn::seq()
        .add(nn::linear(&root / "in", 16, 32, nn::LinearConfig::default()))
        .add_fn(Tensor::tanh)
        .add(nn::linear(&root / "out", 32, 4, nn::LinearConfig::default()))
}

fn of_store(variables: &nn::VarStore) -> Vec<Vec<u32>> {
    contents(variables).into_iter().map(|(_, weight)| weight).collect()
}

fn is_evicted<T>(outcome: Result<T, TchError>) -> bool {
    outcome.is_err_and(|error| Error::from(error).kind() == ErrorKind::Offloaded)
}

#[test]
fn epochs_with_managers_of_their_own() {
    let _alone = alone();
    let run = |manages: bool| {
        tch::manual_seed(3);
        let variables = nn::VarStore::new(ground::device());
        let net = net(&variables);
        let mut optimizer = nn::Adam::default().build(&variables, 1e-2).unwrap();
        let rows = ramp(8 * 16).view([8, 16]);
        for epoch in 0..6 {
            let here = manages.then(|| match epoch % 3 {
                0 => manager(Genoa),
                1 => manager(Lru).budget(ground::allocated_bytes() + (1 << 20)),
                _ => Manager::new(&cpu_device()),
            });
            let entered = here.as_ref().map(|manager| manager.enter().unwrap());
            for _ in 0..3 {
                optimizer.backward_step(&net.forward(&rows).square().mean(Kind::Float));
            }
            drop(here);
            drop(entered);
        }
        let last = manages.then(|| manager(Lru));
        let _entered = last.as_ref().map(|last| last.enter().unwrap());
        of_store(&variables)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn views_and_aliases() {
    let _alone = alone();
    is_the_same(|_| {
        let mut base = ramp(1000);
        let mut view = base.view([10, 100]).narrow(0, 2, 3);
        let detached = base.detach();
        let _ = view.g_add_(&Tensor::ones([3, 100], ground::floats()));
        let mut data = detached.data();
        let _ = data.fill_(2.0);
        let _ = base.narrow(0, 0, 10).zero_();
        let mut other = ramp(500);
        other.set_data(&base);
        let _ = other.g_mul_scalar_(3.0);
        let copy = base.copy();
        base.copy_(&(&copy + 1.0));
        let clone = base.shallow_clone();
        let halves = base.chunk(2, 0);
        let lazy = base.internal_lazy_clone();
        let _ = base.g_add_(&copy);
        let strided = base.as_strided([10, 10], [7, 3], 5);
        vec![
            bits(&base),
            bits(&view),
            bits(&detached),
            bits(&other),
            bits(&clone),
            bits(&halves[1]),
            bits(&lazy),
            bits(&strided),
        ]
    });
}

#[test]
fn resize_and_out() {
    let _alone = alone();
    is_the_same(|_| {
        let mut small = ramp(100);
        let one = ramp(1000);
        let out = Tensor::empty([0], ground::floats());
        let sum = one.add_out(&out, &one);
        let _ = small.resize_([400]).g_add_(&ramp(400));
        let _ = small.fill_(1.0);
        let mut set = ramp(10);
        let _ = set.set_source_tensor(&one);
        let _ = set.resize_([2000]).fill_(4.0);
        let _ = one.add_out(&set, &one);
        vec![bits(&sum), bits(&out), bits(&small), bits(&set), bits(&one)]
    });
}

#[test]
fn optimizers_and_gradients() {
    let _alone = alone();
    for kind in 0..4 {
        is_the_same(|_| {
            tch::manual_seed(4);
            let mut variables = nn::VarStore::new(ground::device());
            let net = net(&variables);
            let mut optimizer = match kind {
                0 => nn::Adam::default().build(&variables, 1e-2),
                1 => nn::AdamW::default().build(&variables, 1e-2),
                2 => nn::RmsProp::default().build(&variables, 1e-2),
                _ => nn::sgd(0.9, 0.0, 0.1, true).build(&variables, 1e-2),
            }
            .unwrap();
            let rows = ramp(8 * 16).view([8, 16]);
            let mut losses = Vec::new();
            for step in 0..6 {
                let loss = net.forward(&rows).square().mean(Kind::Float);
                optimizer.zero_grad();
                loss.backward();
                optimizer.clip_grad_norm(0.5);
                if step == 2 {
                    variables.freeze();
                    variables.unfreeze();
                }
                optimizer.step();
                losses.push(bits(&loss));
                if step == 4 {
                    let gradients = variables.trainable_variables();
                    losses.extend(gradients.iter().map(|variable| bits(&variable.grad())));
                }
            }
            losses.extend(of_store(&variables));
            losses
        });
    }
}

#[test]
fn stores_are_copied_cast_and_loaded_in_part() {
    let _alone = alone();
    let file = std::env::temp_dir().join(format!("toma-programs-{}.safetensors", std::process::id()));
    for format in ["safetensors", "ot"] {
        let file = file.with_extension(format);
        is_the_same(|_| {
            tch::manual_seed(5);
            let (mut one, mut other) =
                (nn::VarStore::new(ground::device()), nn::VarStore::new(ground::device()));
            let (_net, net) = (net(&one), net(&other));
            other.copy(&one).unwrap();
            one.double();
            one.float();
            one.save(&file).unwrap();
            let extra = other.root().zeros("extra", &[100]);
            assert_eq!(other.load_partial(&file).unwrap(), ["extra"]);
            other.half();
            other.set_kind(Kind::Float);
            let _ = tch::no_grad(|| extra.shallow_clone().fill_(7.0));
            let rows = ramp(32).view([2, 16]);
            let output = tch::no_grad(|| net.forward(&rows));
            let mut all = of_store(&other);
            all.extend(of_store(&one));
            all.push(bits(&output));
            all
        });
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn scripts() {
    let _alone = alone();
    is_the_same(|_| {
        tch::manual_seed(6);
        let weight = ramp(256).view([16, 16]);
        let mut traced =
            |inputs: &[Tensor]| vec![(inputs[0].matmul(&weight).tanh() * inputs[0].sigmoid()).exp().tanh()];
        let input = ramp(64).view([4, 16]);
        let mut module =
            CModule::create_by_tracing("net", "forward", &[input.shallow_clone()], &mut traced).unwrap();
        let file = std::env::temp_dir().join(format!("toma-script-{}.pt", std::process::id()));
        module.save(&file).unwrap();
        let mut loaded = CModule::load(&file).unwrap();
        loaded.set_eval();
        std::fs::remove_file(&file).unwrap();
        module.to(ground::device(), Kind::Float, false);
        let mut all: Vec<_> = (0..4).map(|_| bits(&module.forward_ts(&[&input]).unwrap())).collect();
        all.extend((0..4).map(|_| bits(&loaded.forward_ts(&[&input]).unwrap())));
        all
    });
}

#[test]
fn panics_half_way() {
    let _alone = alone();
    is_the_same(|manager| {
        let weights = ramp(1000).set_requires_grad(true);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let _inner = manager.map(|manager| manager.enter().unwrap());
            let _modes = ModeGuard::new();
            let loss = (&weights * 2.0).sum(Kind::Float);
            loss.backward();
            tch::no_grad(|| panic!("half-way"))
        }));
        assert!(failed.is_err());
        let failed = catch_unwind(AssertUnwindSafe(|| {
            checkpoint::region(|| {
                let _doubled = &weights * 2.0;
                panic!("in a region")
            })
        }));
        assert!(failed.is_err());
        (&weights * 3.0).sum(Kind::Float).backward();
        vec![bits(&weights), bits(&weights.grad())]
    });
}

#[test]
fn guards_in_all_orders() {
    let _alone = alone();
    let weights = ramp(1000);
    let expected = bits(&(&weights * 2.0));
    // `order` numbers the 24 orders in which the four guards can be dropped.
    for order in 0..24_usize {
        let (manager, other) = (manager(Genoa), manager(Genoa));
        let mut guards: Vec<Option<Box<dyn std::any::Any>>> = vec![
            Some(Box::new(ModeGuard::new())),
            Some(Box::new(manager.enter().unwrap())),
            Some(Box::new(ModeGuard::new())),
            Some(Box::new(manager.enter().unwrap())),
        ];
        assert!(other.enter().is_err());
        manager.adopt(&weights).offload().unwrap();
        let mut rest: Vec<_> = (0..4).collect();
        let mut order = order;
        while !rest.is_empty() {
            let at = rest.remove(order % rest.len());
            order /= rest.len() + 1;
            guards[at] = None;
            let is_entered = rest.contains(&1) || rest.contains(&3);
            match weights.f_mul(&Tensor::from(2_f32)) {
                Ok(doubled) => assert!(is_entered && bits(&doubled.copy()) == expected),
                Err(error) => assert!(!is_entered && is_evicted::<()>(Err(error)), "entered: {is_entered}"),
            }
        }
        drop(manager);
        let _entered = other.enter().unwrap();
        assert_eq!(bits(&(&weights * 2.0)), expected);
    }
}

#[test]
fn a_loader_on_a_thread_of_its_own() {
    poisoned("programs::a_loader_on_a_thread_of_its_own", || {
        let _alone = alone();
        let (sends, batches) = mpsc::sync_channel::<Tensor>(2);
        let loader = thread::spawn(move || {
            for at in 0..300 {
                sends.send(Tensor::full([4000], f64::from(at), ground::floats())).unwrap();
            }
        });
        let (returns, ended) = mpsc::channel::<Tensor>();
        let drops = thread::spawn(move || {
            let mut sum = 0;
            for (at, batch) in ended.iter().enumerate() {
                sum += usize::from(batch.f_sum(Kind::Double).is_ok());
                assert!(at < 1000);
            }
            sum
        });
        let (manager, _entered) = entered(ground::allocated_bytes() + (512 << 10), Genoa);
        for (at, mut batch) in batches.iter().enumerate() {
            let total = batch.g_add_scalar_(1.0).sum(Kind::Double).double_value(&[]);
            assert_eq!(total, 4000.0 * (at as f64 + 1.0));
            if at % 2 == 0 {
                returns.send(batch).unwrap();
            }
        }
        drop(returns);
        loader.join().unwrap();
        println!("{} of 150, {}", drops.join().unwrap(), manager.report());
        assert_eq!(manager.status().evicted, 0);
    });
}

#[test]
fn a_fetch_that_finds_no_room() {
    let _alone = alone();
    let large: Vec<_> = (0..4).map(|at| Tensor::full([1 << 18], at, ground::floats())).collect();
    let (manager, _entered) = entered(ground::allocated_bytes() + (3 << 20), Lru);
    let handles: Vec<_> = large.iter().map(|tensor| manager.adopt(tensor)).collect();
    for handle in &handles {
        handle.offload().unwrap();
    }
    manager.set_budget(ground::allocated_bytes() + (3 << 20)).unwrap();
    for round in 0..3 {
        assert!(Tensor::f_stack(&large, 0).is_err(), "{round}");
        assert!(catch_unwind(AssertUnwindSafe(|| Tensor::stack(&large, 0))).is_err());
        for (at, tensor) in large.iter().enumerate() {
            assert_eq!(tensor.sum(Kind::Float).double_value(&[]), (at << 18) as f64);
        }
    }
    assert!(manager.fetch_all().is_err());
    manager.set_budget(u64::MAX / 2).unwrap();
    manager.fetch_all().unwrap();
    for (at, tensor) in large.iter().enumerate() {
        assert_eq!(tensor.max().double_value(&[]), at as f64);
    }
}

/// A handle of one manager moves a tensor that is too small for the next manager to move.
#[test]
fn small_ones_of_an_earlier_manager() {
    poisoned("programs::small_ones_of_an_earlier_manager", || {
        let _alone = alone();
        let mut small = ramp(500);
        let expected = bits(&(&small + 1.0));
        let first = manager(Lru);
        let handle = first.adopt(&small);
        handle.offload().unwrap();
        let second = Manager::new(&cpu_device());
        let _entered = second.enter().unwrap();
        let _ = small.f_add_(&Tensor::from(1_f32)).unwrap();
        handle.fetch().unwrap();
        assert_eq!(bits(&small), expected);
    });
}

#[test]
fn printing_and_files_of_single_tensors() {
    let _alone = alone();
    is_the_same(|manager| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let tensor = ramp(300).view([30, 10]);
        let evict = || manager.map(|manager| manager.adopt(&tensor).offload().unwrap());
        evict();
        let shown = format!("{tensor} {tensor:?}");
        evict();
        tensor.save(file("a.ot")).unwrap();
        evict();
        tensor.write_npy(file("a.npy")).unwrap();
        evict();
        Tensor::write_npz(&[("a", &tensor)], file("a.npz")).unwrap();
        evict();
        Tensor::write_safetensors(&[("a", &tensor)], file("a.safetensors")).unwrap();
        evict();
        let rows = Vec::<Vec<f32>>::try_from(&tensor).unwrap();
        evict();
        let iterated: Vec<f64> = tensor.view([-1]).iter::<f64>().unwrap().collect();
        evict();
        let same = tensor == tensor.copy();
        let loaded = [
            Tensor::load(file("a.ot")).unwrap(),
            Tensor::read_npy(file("a.npy")).unwrap(),
            Tensor::read_npz(file("a.npz")).unwrap().remove(0).1,
            Tensor::read_safetensors(file("a.safetensors")).unwrap().remove(0).1,
        ];
        let mut all: Vec<_> = loaded.iter().map(bits).collect();
        all.push(rows.into_iter().flatten().map(f32::to_bits).collect());
        all.push(iterated.iter().map(|one| (*one as f32).to_bits()).collect());
        all.push(shown.bytes().map(u32::from).chain([u32::from(same)]).collect());
        all
    });
}

/// Without a manager every use is an error; afterwards all values are back.
#[test]
fn used_outside() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let net = net(&variables);
    let mut optimizer = nn::Adam::default().build(&variables, 1e-2).unwrap();
    let rows = ramp(32).view([2, 16]);
    let expected = of_store(&variables);
    let manager = manager(Genoa);
    manager.adopt_all(&variables).iter().for_each(|handle| handle.offload().unwrap());
    let file = std::env::temp_dir().join(format!("toma-outside-{}.ot", std::process::id()));
    assert!(is_evicted(variables.save(&file)));
    // A save that fails half-way may have created the file.
    let _ = std::fs::remove_file(&file);
    assert!(is_evicted(variables.save_to_stream(Vec::new())));
    assert!(catch_unwind(AssertUnwindSafe(|| net.forward(&rows))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| optimizer.backward_step(&rows.sum(Kind::Float)))).is_err());
    let mut other = nn::VarStore::new(ground::device());
    let _net = self::net(&other);
    assert!(other.copy(&variables).is_err());
    let elsewhere = thread::spawn({
        let weight = variables.variables().remove("in.weight").unwrap();
        move || is_evicted(weight.f_sum(Kind::Float)) && is_evicted(weight.detach().f_relu_())
    });
    assert!(elsewhere.join().unwrap());
    manager.fetch_all().unwrap();
    assert_eq!(of_store(&variables), expected);
    optimizer.backward_step(&net.forward(&rows).sum(Kind::Float));
}

/// Many threads make, enter and drop managers at once.
#[test]
fn managers_race() {
    poisoned("programs::managers_race", || {
        let _alone = alone();
        let weights = ramp(5000);
        let expected = bits(&weights);
        thread::scope(|scope| {
            for at in 0..6_u64 {
                let (weights, expected) = (weights.shallow_clone(), &expected);
                scope.spawn(move || {
                    for round in 0..60 {
                        let manager =
                            if (at + round) % 2 == 0 { manager(Genoa) } else { Manager::new(&cpu_device()) };
                        let handle = manager.adopt(&weights);
                        let _stays = handle.offload();
                        if let Ok(_entered) = manager.enter() {
                            assert_eq!(bits(&(&weights * 1.0)), *expected);
                            let parked = manager.park();
                            drop(manager);
                            drop(parked);
                        }
                    }
                });
            }
        });
        let last = manager(Lru);
        let _entered = last.enter().unwrap();
        assert_eq!(bits(&weights), expected);
    });
}

/// A thread's own variables are dropped after the thread's state of offloading.
#[test]
fn used_in_destructors_of_threads() {
    poisoned("programs::used_in_destructors_of_threads", || {
        fn is_right(outcome: Result<Tensor, TchError>) -> bool {
            outcome.map_or_else(|error| is_evicted::<()>(Err(error)), |_| true)
        }
        struct Late(Tensor, mpsc::Sender<bool>);
        impl Drop for Late {
            fn drop(&mut self) {
                let found = self.0.f_sum(Kind::Double);
                self.1.send(is_right(found)).unwrap();
                drop(self.0.f_relu_());
            }
        }
        thread_local!(static LATE: std::cell::RefCell<Vec<Late>> = const { std::cell::RefCell::new(Vec::new()) });
        let _alone = alone();
        let manager = manager(Genoa);
        let (sends, receives) = mpsc::channel();
        for enters in [false, true, false, true] {
            let weights = ramp(5000);
            let handle = manager.adopt(&weights);
            let (sends, manager) = (sends.clone(), manager.clone());
            let theirs = weights.shallow_clone();
            thread::spawn(move || {
                LATE.with(|late| late.borrow_mut().push(Late(theirs, sends)));
                let _entered = enters.then(|| manager.enter().unwrap());
                let _sum = (ramp(5000) * 2.0).sum(Kind::Float);
            })
            .join()
            .unwrap();
            assert!(receives.recv().unwrap());
            handle.fetch().unwrap();
            assert_eq!(bits(&weights)[1], 0.01_f32.to_bits());
        }
    });
}

/// Leaked guards leave a thread entered, and leaked pins hold for good.
#[test]
fn a_leaked_manager() {
    poisoned("programs::a_leaked_manager", || {
        let _alone = alone();
        let weights = ramp(5000);
        let expected = bits(&weights);
        thread::spawn({
            let weights = weights.shallow_clone();
            move || {
                let manager = manager(Genoa);
                std::mem::forget(manager.enter().unwrap());
                let handle = manager.adopt(&weights);
                std::mem::forget(handle.pin().unwrap());
                assert!(handle.offload().is_err());
                let other = ramp(5000);
                let _sum = &other + 1.0;
                std::mem::forget(manager.park());
            }
        })
        .join()
        .unwrap();
        assert_eq!(bits(&weights), expected);
        assert!(manager(Lru).enter().is_err());
    });
}
