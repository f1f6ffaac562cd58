//! What once came between ranks.

use toma::ranks::Ranks;

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
