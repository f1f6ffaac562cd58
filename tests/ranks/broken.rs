//! What once came between ranks.

use std::io;

use toma::ranks::Ranks;
use toma::{NoCache, execute};

use crate::kit::on_each;

#[test]
fn a_name_may_be_used_again() {
    let said = on_each(2, |rank| {
        [5, 3].map(|value| {
            let evaluation = rank.named("evaluation", rank.store().clone());
            evaluation.smallest(value + rank.rank()).unwrap()
        })
    });
    assert_eq!(said, [[5, 3]; 2]);
}

#[test]
fn a_name_may_be_used_twice_at_a_time() {
    let said = on_each(2, |rank| {
        let [one, other] = [(); 2].map(|()| rank.named("evaluation", rank.store().clone()));
        [one.smallest(5).unwrap(), other.smallest(3).unwrap(), one.smallest(7).unwrap()]
    });
    assert_eq!(said, [[5, 3, 7]; 2]);
}

#[test]
fn keys_do_not_pile_up_where_calls_end_in_errors() {
    on_each(3, |rank| {
        let mut most = 0;
        for _ in 0..100 {
            let with = execute::with::<NoCache>().name("step").ranks(&rank);
            let fails = rank.rank() == 0;
            with.batch(4, |size| if fails { Err(io::Error::other("no")) } else { Ok(size) }).unwrap_err();
            most = most.max(rank.store().keys());
        }
        assert!(most <= 24, "{most}");
    });
}
