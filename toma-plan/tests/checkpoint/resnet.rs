//! ResNet-152, as it was measured. The benchmark of plans uses it as well.

use toma_plan::checkpoint::{Costs, Saving, Stage};

const MIB: f64 = 1_048_576.0;

/// The granularity of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    Byte,
    /// Each size is rounded up to two MiB.
    TwoMib,
}

impl Grain {
    fn bytes(self, mib: f64) -> u64 {
        let mib = if self == Self::TwoMib { (mib / 2.0).ceil() * 2.0 } else { mib };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, in whole bytes"
        )]
        let bytes = (mib * MIB).round() as u64;
        bytes
    }
}

/// A way to save fewer bytes of a stage: saved MiB, extra seconds, and MiB of the peak of backward.
type Way = (f64, f64, f64);

/// Seconds of a block, and MiB of its output, of its saved activations and of the peaks of forward and backward.
struct Block {
    seconds: f64,
    mib: [f64; 4],
    ways: Vec<Way>,
}

impl Block {
    fn stage(&self, grain: Grain) -> Stage {
        let [output, saved, x, y] = self.mib.map(|mib| grain.bytes(mib));
        let savings = self.ways.iter().map(|&(saved, extra_seconds, backward)| Saving {
            saved_bytes: grain.bytes(saved),
            extra_seconds,
            saving_peak_bytes: x,
            repeat_saving_peak_bytes: x,
            backward_peak_bytes: grain.bytes(backward),
        });
        let stage = Stage {
            forward_seconds: self.seconds,
            backward_seconds: 2.0 * self.seconds,
            output_bytes: output,
            saved_bytes: saved,
            gradient_bytes: output,
            forward_peak_bytes: x,
            saving_peak_bytes: x,
            backward_peak_bytes: y,
            savings: savings.collect(),
            ..Stage::default()
        };
        stage.repeated_alike()
    }
}

/// The ways in which a stage may be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    Whole,
    Parts,
}

/// ResNet-152 at batch 16 and 224 pixels, with times in MFLOP: a stem, four groups of blocks and a head.
pub(crate) fn resnet152(inside: Inside, grain: Grain) -> Costs {
    let stem = Block { seconds: 128.0, mib: [12.25, 134.75, 98.0, 98.0], ways: vec![(85.75, 0.0, 147.0)] };
    let head = Block { seconds: 4.0, mib: [1.0 / MIB; 4], ways: Vec::new() };
    let mut blocks = vec![stem];
    for (group, (count, w)) in [(3, 12.25), (8, 6.125), (36, 3.0625), (3, 1.53125)].into_iter().enumerate() {
        blocks.push(first_block(group, w));
        blocks.extend((1..count).map(|_| block(w)));
    }
    blocks.push(head);
    if inside == Inside::Whole {
        for block in &mut blocks {
            block.ways.clear();
        }
    }
    let stages = blocks.iter().map(|block| block.stage(grain)).collect();
    Costs::new(stages).unwrap().with_input_gradient(grain.bytes(9.2)).unwrap()
}

fn block(w: f64) -> Block {
    let seconds = 218.0;
    let more = seconds / 17.0;
    let ways =
        vec![(10.0 * w, 0.0, 10.0 * w), (6.0 * w, 4.0 * more, 14.0 * w), (5.0 * w, 8.0 * more, 15.0 * w)];
    Block { seconds, mib: [4.0 * w, 12.0 * w, 5.0 * w, 8.0 * w], ways }
}

/// The first block of a group, which changes the number of channels, and the size in all groups but the first.
fn first_block(group: usize, w: f64) -> Block {
    let (seconds, saved) = if group == 0 { (230.0, 16.0 * w) } else { (375.0, 19.0 * w) };
    let ways = vec![(saved - 2.0 * w, 0.0, 10.0 * w), (saved - 6.0 * w, 0.18 * seconds, 14.0 * w)];
    Block { seconds, mib: [4.0 * w, saved, 5.0 * w, 8.0 * w], ways }
}
