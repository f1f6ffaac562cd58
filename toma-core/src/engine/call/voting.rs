//! Votes of a call with ranks: at its beginning and after each attempt. The call follows the agreed result.

use super::Call;
use crate::classify::Failure;
use crate::engine::attempt::Attempt;
use crate::engine::ballot::{Ahead, Ballot, Owes};
use crate::engine::machine::Took;
use crate::engine::options::Options;
use crate::engine::stages::Stages;
use crate::nesting::Nesting;
use crate::observe::{Answer, EventKind, Reason};
use crate::policy::Policy;
use crate::ranks::{Agreed, Error, RankState, Waiting};

/// Result on all ranks of an attempt that has succeeded on this one.
pub(crate) enum Together {
    /// It counts on all ranks.
    Counts,
    /// It failed on another rank.
    Again(Answer),
    /// Another rank has ended the call.
    Ended,
}

impl<'a> Call<'a> {
    fn ballot(&mut self) -> Option<&mut Ballot<'a>> {
        self.stages.as_mut()?.ballot.as_deref_mut()
    }

    /// Joins the other ranks, if the call has any.
    pub(super) fn joins(&mut self, options: &Options<'a>) {
        let Some(ranks) = options.ranks else { return };
        let name = self.report.name();
        if Nesting::now().marks.agrees {
            name.refuse(
                "ranks inside of an attempt on which ranks agree: must be on the outermost call alone",
            );
        }
        let ballot = Ballot::new(ranks, name, self.machine.is_batch());
        if let Some(stages) = &mut self.stages {
            stages.ballot = Some(Box::new(ballot));
        }
    }

    /// True while the votes of all ranks decide the outcome of an attempt.
    #[inline]
    pub(crate) fn agrees(&self) -> bool {
        self.stages.as_ref().is_some_and(|stages| !stages.is_agreed())
    }

    /// True if no work is left here, and no other rank waits for this one.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && self.stages.as_ref().is_none_or(Stages::is_agreed)
    }

    /// Casts all votes that are due before the next attempt; blocks the thread.
    #[inline(never)]
    pub(super) fn settle_votes(&mut self) {
        while let Some(cast) = self.owed() {
            self.follow_vote(cast.and_then(|waiting| waiting()));
        }
    }

    /// Casts the vote that is due before the next attempt, if any.
    #[inline(never)]
    pub(crate) fn owed(&mut self) -> Option<Result<Waiting, Error>> {
        let (proposal, step, done) = (self.machine.proposal(), self.machine.step, self.machine.is_done());
        let ballot = self.ballot().filter(|ballot| !ballot.is_over())?;
        let ready = if done { RankState::Done } else { RankState::Ready };
        let (next, retry) = if done { (usize::MAX, usize::MAX) } else { (proposal, step) };
        Some(match ballot.owes {
            Some(Owes::Failure { class, injected }) => {
                let failed = if injected { RankState::Injected } else { RankState::Failed };
                ballot.cast(failed(class), usize::MAX, step)
            }
            Some(Owes::Begin | Owes::LeftOut) => ballot.cast(ready, next, retry),
            None if done => {
                let cast = ballot.cast(RankState::Done, usize::MAX, usize::MAX);
                self.report.joins();
                cast
            }
            None => return None,
        })
    }

    /// Follows the result of the last vote.
    pub(crate) fn follow_vote(&mut self, verdict: Result<Agreed, Error>) {
        let Some(stages) = &mut self.stages else { return };
        let Some(ballot) = &mut stages.ballot else { return };
        let (owed, pending, rank) = (ballot.owes.take(), ballot.pending.take(), ballot.rank());
        let from = self.machine.step;
        let size = pending.map_or(from, |_| stages.failed_size);
        let Some(agreed) = ballot.receive(verdict) else { return self.ends_elsewhere(size) };
        self.injected |= agreed.injected;
        match (owed, agreed.failed) {
            (Some(Owes::Begin), _) => {
                self.machine.adopt(agreed.next);
                self.report.starts_at(self.machine.first_size());
            }
            (None, _) => {}
            (Some(_), None) => self.machine.adopt(agreed.next),
            (Some(_), Some(elsewhere)) => {
                self.machine.adopt(agreed.retry);
                let to = self.machine.step;
                let follows = elsewhere.rank != rank && to < from;
                let answer = match pending {
                    Some(Answer::FallBack(_)) => Some(Answer::FallBack(self.machine.coming_size())),
                    _ if follows => Some(Answer::Follow { to, elsewhere }),
                    Some(Answer::Shrink(_)) => Some(Answer::Shrink(to)),
                    pending => pending,
                };
                if let Some(answer) = answer {
                    self.notify_answer(size, answer);
                }
            }
        }
    }

    /// Casts the vote for an attempt that has succeeded on this rank.
    pub(crate) fn votes(&mut self, policy: &dyn Policy, attempt: &mut Attempt) -> Result<Waiting, Error> {
        let took = self.measured(attempt);
        let (mut machine, mut doubts) = (self.machine.ahead(), self.doubts);
        if machine.succeeded(policy, took).is_none()
            && machine.may_doubt()
            && doubts.succeeded()
            && machine.doubt().is_some()
        {
            doubts.begins();
        }
        let (done, next, retry) = (machine.is_done(), machine.proposal(), self.machine.step);
        // A thread that waits for other ranks must not keep the device from any of them.
        attempt.end();
        let Took { elapsed, measured } = took;
        let ahead = Box::new(Ahead { machine, doubts, measured, elapsed });
        let ballot = self.ballot().expect("only a call that agrees votes");
        ballot.ahead = Some(ahead);
        let (state, next) = if done { (RankState::Done, usize::MAX) } else { (RankState::Ready, next) };
        ballot.cast(state, next, retry)
    }

    /// Follows the result of the vote on an attempt that has succeeded on this rank.
    pub(crate) fn agreed_on_success(
        &mut self,
        attempt: &Attempt,
        verdict: Result<Agreed, Error>,
    ) -> Together {
        let ballot = self.ballot().expect("only a call that agrees has voted");
        let ahead = ballot.ahead.take().expect("it was kept with the vote");
        let Some(agreed) = ballot.receive(verdict) else {
            self.report.succeeded();
            self.ends_elsewhere(self.machine.step);
            return Together::Ended;
        };
        let took = Took { elapsed: ahead.elapsed, measured: ahead.measured };
        self.injected |= agreed.injected;
        if agreed.failed.is_some() {
            self.machine.stays(ahead.machine);
            return Together::Again(self.follows(took, &agreed));
        }
        self.report.succeeded();
        self.notify_succeeded(attempt, took);
        let from = self.machine.step;
        let doubted = ahead.machine.doubted;
        self.machine = ahead.machine;
        self.machine.adopt(agreed.next);
        // A doubt that not all ranks share stays due.
        if doubted.is_none() || self.machine.doubted.is_some() {
            self.doubts = ahead.doubts;
        }
        let to = self.machine.step;
        if to != from {
            self.step_changes(from, to);
        }
        Together::Counts
    }

    /// Prepares to repeat an attempt that has failed on another rank.
    fn follows(&mut self, took: Took, agreed: &Agreed) -> Answer {
        let elsewhere = agreed.failed.expect("the caller has looked");
        self.time_from_now_on();
        if let Some(witnessed) = self.witnessed() {
            witnessed.leave();
            witnessed.failed(elsewhere.class);
        }
        if self.machine.doubted.is_some() {
            self.doubts.fails();
        }
        let (step, size) = (self.machine.step, self.machine.size());
        self.report_worked(step);
        self.report.failed_elsewhere(size, elsewhere.class, took.elapsed);
        let answer = Answer::Follow { to: self.machine.follow(agreed.retry), elsewhere };
        if let Some(stages) = &mut self.stages {
            stages.failed_size = step;
            if let Some(again) = &mut stages.again {
                again.after_failure(answer);
            }
        }
        answer
    }

    /// Ends the call on all ranks, because this rank's failure is passed on and none may wait for its remaining work.
    pub(crate) fn leaves_ranks(&mut self, failure: &Failure) {
        if let Some(ballot) = self.ballot() {
            ballot.leave(&failure.message);
            self.machine.end();
        }
    }

    fn ends_elsewhere(&mut self, size: usize) {
        let answer = Answer::GiveUp(Reason::EndedElsewhere);
        self.machine.end();
        self.report.gives_up(Reason::EndedElsewhere);
        self.notify(|| EventKind::Answered { size, answer });
    }

    /// Takes the reason why another rank has ended the call, if one has.
    #[inline]
    pub(crate) fn ended(&mut self) -> Option<Error> {
        self.stages.as_mut()?.ballot.as_mut()?.ended.take()
    }
}
