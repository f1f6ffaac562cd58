//! The subject of a row: a policy, the form it works in, and the memory source it sees.

use crate::form::Form;
use crate::policies::Entry;
use crate::source::Source;

pub(crate) type Subject<'a> = (&'a Entry, Form, Source);

/// Each policy in each form with each source.
pub(crate) fn subjects<'a>(policies: &[&'a Entry], sources: &[Source]) -> Vec<Subject<'a>> {
    let of = |policy: &'a Entry| {
        Form::ALL.into_iter().flat_map(move |form| sources.iter().map(move |&source| (policy, form, source)))
    };
    policies.iter().flat_map(|policy| of(policy)).collect()
}
