//! Steps written operator by operator, at any size.

use toma_plan::GRADIENTS;
use toma_trace::{Access, Label, Operand, OperatorId, Place, Recorder, ScopeKind, StorageId, Trace};

use crate::MAIN;

#[derive(Clone, Debug)]
pub(crate) struct Value {
    storage: StorageId,
    shape: Vec<u64>,
    gradient: bool,
    identity: u64,
}

/// Records calls; results require gradients when an argument does.
#[derive(Default)]
pub(crate) struct Tape {
    recorder: Recorder,
    last: Option<OperatorId>,
    pub(crate) no_gradients: bool,
}

impl Tape {
    /// Makes data that require no gradient.
    pub(crate) fn data(&mut self, shape: &[u64]) -> Value {
        let storage = self.recorder.existing(&Place::HOST, 0).unwrap();
        Value { storage, shape: shape.to_owned(), gradient: false, identity: 0 }
    }

    pub(crate) fn weight(&mut self, shape: &[u64]) -> Value {
        Value { gradient: true, ..self.data(shape) }
    }

    pub(crate) fn call(&mut self, name: &str, inputs: &[&Value], shape: &[u64]) -> Value {
        self.along(name, &[], inputs, shape)
    }

    /// Records a call with the attribute `dim`.
    pub(crate) fn along(&mut self, name: &str, dims: &[i64], inputs: &[&Value], shape: &[u64]) -> Value {
        let storage = self.recorder.birth(MAIN, &Place::HOST, 0).unwrap();
        let operator = self.begin(name, inputs);
        if !dims.is_empty() {
            self.recorder.attribute(operator, "dim", dims).unwrap();
        }
        self.end(operator, inputs, Operand::new(storage, Access::Makes, shape))
    }

    /// Records a call with a second result that requires no gradient, such as a seed.
    pub(crate) fn attend(&mut self, input: &Value, shape: &[u64]) -> Value {
        let operator = self.begin("aten::_scaled_dot_product_flash_attention", &[input]);
        let [result, seed] = [(); 2].map(|()| self.recorder.birth(MAIN, &Place::HOST, 0).unwrap());
        self.recorder.uses(operator, Operand::new(seed, Access::Makes, &[])).unwrap();
        self.end(operator, &[input], Operand::new(result, Access::Makes, shape))
    }

    /// Records a layer norm over the last dimension, with statistics that no gradient depends on.
    pub(crate) fn layer_norm(&mut self, input: &Value, statistics: &[u64]) -> Value {
        let operator = self.begin("aten::native_layer_norm", &[input]);
        for _ in ["mean", "rstd"] {
            let storage = self.recorder.birth(MAIN, &Place::HOST, 0).unwrap();
            self.recorder.uses(operator, Operand::new(storage, Access::Makes, statistics)).unwrap();
        }
        let result = self.recorder.birth(MAIN, &Place::HOST, 0).unwrap();
        self.end(operator, &[input], Operand::new(result, Access::Makes, input.shape()))
    }

    /// Records a call with a number.
    pub(crate) fn scaled(&mut self, name: &str, input: &Value, number: f64) -> Value {
        let storage = self.recorder.birth(MAIN, &Place::HOST, 0).unwrap();
        let operator = self.begin(name, &[input]);
        self.recorder.number(operator, "other", number).unwrap();
        self.end(operator, &[input], Operand::new(storage, Access::Makes, &input.shape))
    }

    /// Records a view of a value.
    pub(crate) fn view(&mut self, name: &str, input: &Value, shape: &[u64]) -> Value {
        let operator = self.begin(name, &[input]);
        let result = Operand::new(input.storage, Access::Views, shape);
        self.end(operator, &[input], Operand { identity: input.identity, ..result })
    }

    /// Records a call that returns so many views of a value, the first of which begins where the value does.
    pub(crate) fn parts(&mut self, name: &str, input: &Value, shape: &[u64], count: u64) -> Vec<Value> {
        let operator = self.begin(name, &[input]);
        let part = |identity| Value { shape: shape.to_owned(), identity, ..input.clone() };
        let parts: Vec<_> = (input.identity..input.identity + count).map(part).collect();
        for part in &parts {
            self.recorder.uses(operator, part.as_operand(Access::Views)).unwrap();
        }
        self.recorder.end_operator(operator).unwrap();
        parts
    }

    /// Records a call that writes into its first input and returns it.
    pub(crate) fn write(&mut self, name: &str, inputs: &[&Value]) -> Value {
        let operator = self.begin(name, &[]);
        self.recorder.uses(operator, inputs[0].as_operand(Access::Writes)).unwrap();
        self.reads(operator, &inputs[1..]);
        self.end(operator, inputs, Operand::new(inputs[0].storage, Access::Writes, &inputs[0].shape))
    }

    fn begin(&mut self, name: &str, reads: &[&Value]) -> OperatorId {
        let operator = self.recorder.begin_operator(MAIN, name);
        self.reads(operator, reads);
        self.last = Some(operator);
        operator
    }

    fn reads(&mut self, operator: OperatorId, inputs: &[&Value]) {
        for input in inputs {
            self.recorder.uses(operator, input.as_operand(Access::Reads)).unwrap();
        }
    }

    fn end(&mut self, operator: OperatorId, inputs: &[&Value], result: Operand) -> Value {
        let gradient = !self.no_gradients && inputs.iter().any(|input| input.gradient);
        let Operand { storage, shape, identity, access, .. } = result;
        let value = Value { storage, shape, gradient, identity };
        self.recorder.uses(operator, value.as_operand(access)).unwrap();
        self.recorder.end_operator(operator).unwrap();
        value
    }

    /// Records all further calls as calls of backward.
    pub(crate) fn backward(&mut self) {
        self.recorder.begin_scope(MAIN, Label::new(ScopeKind::Node, "Backward"));
    }

    /// Marks a body that has changed gradients.
    pub(crate) fn changes_gradients(&mut self) {
        let mark = self.recorder.begin_scope(MAIN, Label::new(ScopeKind::Attempt, GRADIENTS));
        self.recorder.end_scope(mark).unwrap();
    }

    /// Returns the trace, with an attribute of its last operator.
    pub(crate) fn finish_with(mut self, attribute: &str, values: &[i64]) -> Trace {
        let last = self.last.expect("an operator");
        self.recorder.attribute(last, attribute, values).unwrap();
        self.finish()
    }

    pub(crate) fn finish(self) -> Trace {
        self.recorder.finish()
    }
}

impl Value {
    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn as_operand(&self, access: Access) -> Operand {
        let operand = Operand::new(self.storage, access, &self.shape);
        Operand { identity: self.identity, wants_gradient: self.gradient, ..operand }
    }
}
