//! The ways of the tour, in order, and the expected result of each.

/// The way in which a step fits its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Plain tch.
    Plain,
    /// In pieces, half as large after each failure.
    Retry,
    /// In pieces whose size a dry run has found.
    Predict,
    /// Like `Predict`, with the profiler on during the last step.
    Profile,
    /// In one piece; activations that forward drops are recomputed in backward.
    Checkpoint,
    /// Like `Checkpoint`, by the leanest plan, and tensors that still do not fit are evicted.
    Offload,
}

/// Bytes for tensors in addition to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Unlimited,
    /// The budget of the tour.
    Budget,
    /// A budget that checkpoints exceed, too.
    Tight,
}

/// Expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The losses of the first stop, bit for bit, and never out of memory.
    SameBits,
    /// Sums over pieces, and never out of memory.
    Pieces,
    /// Sums over pieces, after running out of memory.
    PiecesAfterFailures,
    /// Memory runs out for good.
    OutOfMemory,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    pub(crate) room: Room,
    pub(crate) expected: Expected,
}

pub(crate) const STOPS: [Stop; 8] = [
    Stop::new("plain, no budget", Way::Plain, Room::Unlimited, Expected::SameBits),
    Stop::new("plain", Way::Plain, Room::Budget, Expected::OutOfMemory),
    Stop::new("retry", Way::Retry, Room::Budget, Expected::PiecesAfterFailures),
    Stop::new("predict", Way::Predict, Room::Budget, Expected::Pieces),
    Stop::new("predict, profiled", Way::Profile, Room::Budget, Expected::Pieces),
    Stop::new("checkpoint", Way::Checkpoint, Room::Budget, Expected::SameBits),
    Stop::new("checkpoint", Way::Checkpoint, Room::Tight, Expected::OutOfMemory),
    Stop::new("checkpoint, offload", Way::Offload, Room::Tight, Expected::SameBits),
];

impl Stop {
    const fn new(name: &'static str, way: Way, room: Room, expected: Expected) -> Self {
        Self { name, way, room, expected }
    }
}

impl Way {
    /// Name in reports and drawings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Retry => "retry",
            Self::Predict => "predict",
            Self::Profile => "profile",
            Self::Checkpoint => "checkpoint",
            Self::Offload => "offload",
        }
    }

    /// True if the batch may be cut.
    pub(crate) fn cuts(self) -> bool {
        matches!(self, Self::Retry | Self::Predict | Self::Profile)
    }

    pub(crate) fn predicts(self) -> bool {
        matches!(self, Self::Predict | Self::Profile)
    }

    pub(crate) fn has_regions(self) -> bool {
        matches!(self, Self::Checkpoint | Self::Offload)
    }
}
