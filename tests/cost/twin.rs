//! The slow, obvious twin: what a call with costs must do, told from the rules alone.

use std::ops::Range;

/// One call: what items cost, the sizes it may use, and which pieces run out of memory.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) costs: Vec<u64>,
    pub(crate) initial: u64,
    pub(crate) min: u64,
    pub(crate) multiple_of: u64,
    /// What the items need in truth, of which their cost may be a bad guess.
    pub(crate) needs: Vec<u64>,
    /// Pieces that need more run out of memory.
    pub(crate) memory: u64,
}

/// Everything a call must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Story {
    pub(crate) attempts: Vec<Range<usize>>,
    pub(crate) done: Vec<Range<usize>>,
    pub(crate) left_out: Vec<usize>,
    /// The piece whose failure goes through at once.
    pub(crate) gave_up: Option<Range<usize>>,
    pub(crate) settled: Option<u64>,
    /// A piece had to be cut by count.
    pub(crate) is_cut: bool,
}

impl Case {
    pub(crate) fn fails(&self, piece: &Range<usize>) -> bool {
        self.needs[piece.clone()].iter().sum::<u64>() > self.memory
    }

    fn floor(&self) -> u64 {
        self.min.max(self.multiple_of).next_multiple_of(self.multiple_of)
    }

    fn cap(&self) -> u64 {
        self.initial / self.multiple_of * self.multiple_of
    }

    fn fit(&self, size: u64) -> u64 {
        (size / self.multiple_of * self.multiple_of).clamp(self.floor(), self.cap())
    }

    /// What must happen under the policy that halves, with what is known from an earlier call.
    pub(crate) fn tell(&self, known: Option<u64>) -> Story {
        let mut story = Story::default();
        let step = known.map_or(self.cap(), |size| self.fit(size));
        let mut now = State { step, most: usize::MAX, ..State::default() };
        // Every failure with what was known before it, until an item of it turns out to be to blame.
        let mut failures: Vec<(Range<usize>, State)> = Vec::new();
        let (mut position, mut resume) = (0, None);
        // The heaviest piece that has worked since an item was left out at the floor.
        let mut fits = None;
        while position < self.costs.len() {
            let piece = self.pack(position, &now);
            let cost: u64 = self.costs[piece.clone()].iter().sum();
            story.attempts.push(piece.clone());
            if !self.fails(&piece) {
                match resume.take() {
                    Some((step, most)) => now = State { step, most, ..now },
                    None => now.succeeds(cost),
                }
                fits = fits.max(Some(cost));
                position = piece.end;
                story.done.push(piece);
                continue;
            }
            let is_at_the_floor = cost <= self.floor();
            let weigh = self.costs[piece.clone()].iter().filter(|&&cost| cost > 0).count();
            let is_stuck = if piece.len() > 1 { weigh > 1 } else { fits < Some(cost) };
            if is_at_the_floor && is_stuck {
                story.gave_up = Some(piece);
                story.settled = None;
                return story;
            }
            let (step, most) = resume.take().unwrap_or((now.step, now.most));
            failures.push((piece.clone(), State { step, most, ..now }));
            if piece.len() > 1 && is_at_the_floor {
                now.most = piece.len() / 2;
                story.is_cut = true;
                continue;
            }
            if piece.len() > 1 {
                now = State { step: self.fit(cost / 2), shrunk: true, settled: None, ..now };
                continue;
            }
            if is_at_the_floor {
                fits = None;
            }
            let real = failures.iter().rposition(|(failed, _)| failed.end <= position);
            let (_, before) = failures.split_off(real.map_or(0, |real| real + 1)).remove(0);
            resume = Some((before.step, before.most));
            now = State { step: now.step, most: now.most, ..before };
            story.left_out.push(position);
            position += 1;
        }
        story.settled = now.settled;
        story
    }

    /// One item, and then as many more as go with it.
    fn pack(&self, start: usize, &State { step, most, .. }: &State) -> Range<usize> {
        let mut end = start + 1;
        while end < self.costs.len()
            && end - start < most
            && self.costs[start..=end].iter().sum::<u64>() <= step
        {
            end += 1;
        }
        start..end
    }
}

/// What is known.
#[derive(Clone, Copy, Default)]
struct State {
    step: u64,
    /// Items that a piece may have.
    most: usize,
    shrunk: bool,
    settled: Option<u64>,
    settled_at: Option<u64>,
}

impl State {
    fn succeeds(&mut self, cost: u64) {
        if self.shrunk && cost <= self.step && 2 * cost > self.step {
            let before = self.settled.filter(|_| self.settled_at == Some(self.step)).unwrap_or(0);
            (self.settled, self.settled_at) = (Some(before.max(cost)), Some(self.step));
        }
    }
}
