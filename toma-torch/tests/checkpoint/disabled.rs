//! `TOMA_DISABLE=1`, in a process of its own: switches are read once.

use crate::ground;
use std::env;
use std::process::Command;

use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::kit::alone;

const NAME: &str = "disabled::regions_run_plainly";

#[test]
fn regions_run_plainly() {
    let _alone = alone();
    if env::var_os("TOMA_DISABLE").is_some() {
        let x = Tensor::ones([4], ground::floats()).set_requires_grad(true);
        checkpoint::region(|| x.tanh()).sum(Kind::Float).backward();
        assert!(checkpoint::last().is_none() && x.grad().defined());
        return;
    }
    let child =
        Command::new(env::current_exe().unwrap()).args([NAME, "--exact"]).env("TOMA_DISABLE", "1").output();
    let child = child.unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && stdout.contains("1 passed"), "{stdout}");
}
