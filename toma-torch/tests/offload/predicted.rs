//! Predicted steps, with everything that a step may do.

use crate::ground;
use tch::nn::OptimizerConfig as _;
use tch::{TchError, Tensor, nn};
use toma_torch::offload::{Flow, Manager, Residency};

use crate::kit::{Rule, alone, bits, budget_of, caught, entered, manager, step_of};
use crate::nets;

#[test]
fn gradients_and_random_numbers_are_as_they_were() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Flow::default());
    let net = nets::transformer();
    tch::manual_seed(5);
    net.loss().backward();
    let gradients = || -> Vec<_> {
        net.variables.trainable_variables().iter().map(|variable| bits(&variable.grad())).collect()
    };
    let (before, weights) = (gradients(), bits(&net.variables.trainable_variables()[0]));
    tch::manual_seed(6);
    let expected = bits(&Tensor::rand([4], ground::floats()));
    tch::manual_seed(6);
    for _ in 0..2 {
        manager.predict(|| net.loss().backward()).unwrap();
    }
    assert_eq!(bits(&Tensor::rand([4], ground::floats())), expected);
    assert_eq!(gradients(), before);
    assert_eq!(bits(&net.variables.trainable_variables()[0]), weights);
}

/// Handles of a step move nothing in a dry run, where tensors have no memory.
#[test]
fn a_step_that_evicts_what_it_made_is_predicted() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Flow::default());
    let weight = Tensor::ones([64, 64], ground::floats()).set_requires_grad(true);
    let step = || {
        let hidden = weight.matmul(&weight).tanh();
        let handle = manager.adopt(&hidden);
        handle.offload().unwrap();
        hidden.sigmoid().sum(tch::Kind::Float).backward();
        handle.residency()
    };
    manager.predict(|| assert_eq!(step(), Residency::Foreign)).unwrap();
    assert_eq!((step(), manager.report().offloads), (Residency::Resident, 1));
}

/// The state that an optimizer makes in its first step would be made in the dry run, without memory.
#[test]
fn an_optimizer_is_predicted_once_its_state_is_there() {
    let _alone = alone();
    let steps = |predicts: Option<&Manager>| {
        let net = nets::perceptron();
        let mut optimizer = nn::sgd(0.9, 0.0, 0.0, false).build(&net.variables, 1e-2).unwrap();
        let mut learn = || {
            let loss = net.loss();
            optimizer.backward_step(&loss);
            loss
        };
        let first = bits(&learn());
        if let Some(manager) = predicts {
            manager.predict(&mut learn).unwrap();
        }
        [first, bits(&learn()), bits(&learn())]
    };
    let expected = steps(None);
    let (manager, _entered) = entered(u64::MAX / 2, Flow::default());
    assert_eq!(steps(Some(&manager)), expected);
    let net = nets::perceptron();
    let mut optimizer = Rule::Sgd.build(&net.variables);
    let failed = caught(|| manager.predict(|| optimizer.backward_step(&net.loss()))).unwrap_err();
    assert!(failed.to_string().contains("dry run: the body kept 16 tensors"), "{failed}");
}

#[test]
fn a_step_that_fails_is_another_or_is_of_another_thread_leaves_no_wrong_plan() {
    let _alone = alone();
    let bytes = budget_of(nets::perceptron, 50);
    let expected: Vec<_> = {
        let net = nets::perceptron();
        std::iter::repeat_with(step_of(&net, Rule::Plain)).take(10).collect()
    };
    let (manager, _entered) = entered(ground::allocated_bytes() + bytes, Flow::default());
    let net = nets::perceptron();
    let mut learn = step_of(&net, Rule::Plain);
    let failing =
        || -> Result<Tensor, TchError> { net.loss().f_matmul(&Tensor::ones([3, 3], ground::floats())) };
    manager.predict(failing).unwrap();
    let mut losses = Vec::new();
    let other = || Tensor::ones([64, 64], ground::floats()).square();
    for _ in 0..5 {
        losses.push(manager.step(|| {
            manager.predict(other).unwrap();
            learn()
        }));
    }
    assert!(caught(|| manager.predict(|| -> Tensor { panic!("a step's own panic") })).is_err());
    for _ in 0..5 {
        losses.push(manager.step(&mut learn));
    }
    assert_eq!(losses, expected);
    assert!(manager.plan().plan().is_some(), "{}", manager.plan());
    let outside = std::thread::scope(|scope| {
        let other = manager.clone();
        let predicting = scope.spawn(move || other.predict(|| Tensor::ones([64, 64], ground::floats())));
        predicting.join().unwrap()
    });
    assert!(outside.unwrap_err().to_string().starts_with("offload: nothing to predict"));
}

/// A plan moves storages also before memory runs out.
#[test]
fn a_plan_moves_nothing_before_there_is_pressure() {
    let _alone = alone();
    let weights = [0, 1, 2, 3].map(|_| Tensor::ones([64, 64], ground::floats()));
    let chain =
        || weights.iter().fold(Tensor::ones([64, 64], ground::floats()), |x, weight| x.matmul(weight));
    let manager = manager(Flow::default()).budget(ground::allocated_bytes() + (1 << 14));
    let _under = manager.on_pressure().unwrap();
    drop(manager.on_pressure().unwrap());
    manager.predict(chain).unwrap();
    assert!(manager.plan().plan().is_some(), "{}", manager.plan());
    let _lacks = caught(chain);
    assert_eq!(manager.report().offloads, 0, "{}", manager.report());
}
