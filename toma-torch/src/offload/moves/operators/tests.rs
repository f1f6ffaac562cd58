//! Tests that the shim lists every tensor an operator writes. Two operators have writes that their schemas hide.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tch::nn::{self, OptimizerConfig as _};

use super::Operators;
use crate::error::Error;
use crate::ffi::{self, DeviceId, Ended, Manages, Remembered, Use};
use crate::memory::Device;
use crate::offload::Lru;
use crate::offload::program::manager::Manager;

#[path = "../../../../tests/common/nets.rs"]
mod nets;

/// Images in a batch of ResNet-20. The batches of other nets grow with it.
const IMAGES: i64 = 4;

thread_local! {
    /// Bytes of the arguments of the running operators, read before each of them.
    static BEFORE: RefCell<Vec<Vec<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// Names of operators.
#[derive(Default)]
struct Seen {
    /// Operators that changed a storage which they are known to write.
    writes: BTreeSet<String>,
    /// Operators that changed a storage which they are not known to write.
    hides: BTreeSet<String>,
    compared: u64,
}

/// Compares the arguments of operators before and after.
struct Compares;

fn bytes_of(uses: &[Use<'_>]) -> Vec<Vec<u8>> {
    let bytes = |one: &Use<'_>| {
        let kept = Remembered::new(one).keep().expect("the operator has it");
        let mut bytes = vec![0; usize::try_from(one.bytes).unwrap()];
        kept.read(&mut bytes).unwrap();
        bytes
    };
    uses.iter().map(bytes).collect()
}

impl Manages for Compares {
    fn begin(&self, name: &str, uses: &mut [Use<'_>]) -> Result<(), Error> {
        Operators.begin(name, uses)?;
        let bytes = bytes_of(uses);
        BEFORE.with_borrow_mut(|before| before.push(bytes));
        Ok(())
    }

    fn end(&self, ended: &mut Ended<'_>) {
        let before = BEFORE.with_borrow_mut(Vec::pop).expect("it has begun");
        let after = bytes_of(ended.uses);
        SEEN.with_borrow_mut(|seen| {
            for (one, (before, after)) in ended.uses.iter().zip(before.iter().zip(&after)) {
                seen.compared += 1;
                if before != after {
                    let names = if one.writes { &mut seen.writes } else { &mut seen.hides };
                    names.insert(ended.name.to_owned());
                }
            }
        });
        Operators.end(ended);
    }

    fn hold(&self, uses: &mut [Use<'_>], begins: bool) {
        Operators.hold(uses, begins);
    }

    fn make_room(&self, device: DeviceId, bytes: u64) -> bool {
        Operators.make_room(device, bytes)
    }
}

/// A third operator with hidden writes in these nets would need an entry in the shim, or its writes would be lost.
#[test]
fn two_operators_of_the_nets_write_what_their_schemas_hide() {
    // The first value stays, which works because no other test of this process makes a manager.
    ffi::install_offloading(&Compares);
    let manager = Manager::new(&Device::new(tch::Device::Cpu)).min_bytes(1).eviction(Lru);
    let _entered = manager.enter().unwrap();
    for net in nets::NETS {
        let net = net();
        let mut optimizer = nn::Adam::default().build(&net.variables, 1e-3).unwrap();
        optimizer.backward_step(&net.loss());
        println!("{}", net.name);
    }
    SEEN.with_borrow(|seen| {
        assert!(seen.compared > 3_000, "{}", seen.compared);
        assert_eq!(seen.hides, BTreeSet::new());
        for name in ["aten::native_batch_norm", "aten::mkldnn_rnn_layer_backward"] {
            assert!(seen.writes.contains(name), "{name}: {:?}", seen.writes);
        }
    });
}
