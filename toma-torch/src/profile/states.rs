//! Names of the states of libtorch's optimizers, found by the operators of the first step.

use std::collections::HashMap;

use toma_trace::operators;

/// Names states by the operators that make them.
///
/// Source: `torch/csrc/api/src/optim` of libtorch 2.11. Adam and `AdamW` begin their states with `zeros_like` of the
/// parameter, `RMSprop` too; SGD clones the first gradient.
pub(super) struct StateNames {
    optimizer: String,
    /// In the order in which they are made.
    zeros: &'static [&'static str],
    operator: Option<StateKind>,
    /// The variable that the operator reads first.
    variable: Option<String>,
    has_read: bool,
    made: HashMap<String, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StateKind {
    Zeros,
    Clone,
}

impl StateNames {
    pub(super) fn new(optimizer: &str) -> Self {
        let is_rmsprop = optimizer.to_ascii_lowercase().contains("rms");
        let zeros: &[_] = if is_rmsprop {
            &["square_avg", "momentum_buffer", "grad_avg"]
        } else {
            &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
        };
        let optimizer = optimizer.to_owned();
        Self { optimizer, zeros, operator: None, variable: None, has_read: false, made: HashMap::new() }
    }

    /// Begins an operator.
    pub(super) fn begins(&mut self, name: &str) {
        let properties = operators::named(name);
        let kinds = [(operators::ZEROS_LIKE, StateKind::Zeros), (operators::CLONES, StateKind::Clone)];
        self.operator = kinds.into_iter().find(|(flag, _)| properties.has(*flag)).map(|(_, kind)| kind);
        (self.variable, self.has_read) = (None, false);
    }

    /// Records a tensor that the operator reads; it is a variable or a gradient if it has a name.
    pub(super) fn reads(&mut self, name: Option<&str>) {
        if !std::mem::replace(&mut self.has_read, true) {
            self.variable = name.map(|name| name.strip_suffix(".grad").unwrap_or(name).to_owned());
        }
    }

    /// Returns the name of a tensor that the operator makes, if it is a state.
    pub(super) fn makes(&mut self) -> Option<String> {
        let variable = self.variable.take()?;
        let state = match self.operator? {
            StateKind::Clone => "momentum_buffer",
            StateKind::Zeros => {
                let made = self.made.entry(variable.clone()).or_default();
                let state = self.zeros.get(*made).copied().unwrap_or("state");
                *made += 1;
                state
            }
        };
        Some(format!("{}.{variable}.{state}", self.optimizer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(optimizer: &str, operators: &[(&str, Option<&str>)]) -> Vec<String> {
        let mut state = StateNames::new(optimizer);
        let one = |(name, reads): &(&str, Option<&str>)| {
            state.begins(name);
            state.reads(*reads);
            state.makes()
        };
        operators.iter().filter_map(one).collect()
    }

    #[test]
    fn states_are_named_by_optimizer_variable_and_order() {
        let zeros = ("aten::zeros_like", Some("w"));
        assert_eq!(
            made("Adam", &[zeros, ("aten::mul.Tensor", Some("w")), zeros, ("aten::zeros_like", None), zeros]),
            ["Adam.w.exp_avg", "Adam.w.exp_avg_sq", "Adam.w.max_exp_avg_sq"]
        );
        assert_eq!(made("my RMSprop", &[zeros]), ["my RMSprop.w.square_avg"]);
        assert_eq!(made("SGD", &[("aten::clone", Some("w.grad"))]), ["SGD.w.momentum_buffer"]);
    }
}
